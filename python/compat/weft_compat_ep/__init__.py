"""The code that `nixl_ep` and `deep_ep` share: where ranks meet, the operations on tensors, events and configurations.

Nothing here is for users: they import `nixl_ep` or `deep_ep`. `_arguments` and `_meeting` need no torch.
"""
