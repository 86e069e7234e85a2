"""How the module nixl works on the package weft. Programs use `nixl._api` or `nixl._bindings`.

| | |
|---|---|
| `status` | statuses, exceptions, and which failure of Weft is which |
| `lists`, `arrays` | lists of descriptors, and what they are made of |
| `backends` | back ends by NIXL's names, and the transports that each is |
| `memory` | what an agent has registered |
| `secret` | the token that agents share, and where they listen |
| `document` | the bytes of an agent's metadata |
| `peers` | what is known of other agents; who has been told of whom |
| `inbox` | notifications, and messages between the agents themselves |
| `exchange` | metadata by sockets and by a store, in the background |
| `requests` | prepared lists and transfers |
| `agent` | `nixlAgent`, which joins all these |
"""
