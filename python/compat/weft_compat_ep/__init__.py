"""What `nixl_ep` and `deep_ep` share: where ranks meet, the low-latency operations on tensors, events and hints.

Nothing here is for users: they import `nixl_ep` or `deep_ep`. `_arguments` and `_meeting` need no torch.
"""
