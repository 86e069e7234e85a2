"""Implementation of the module nixl with the package weft. Programs use `nixl._api` or `nixl._bindings`.

| | |
|---|---|
| `status` | statuses, exceptions, and the exception for each failure of Weft |
| `lists`, `arrays` | lists of descriptors, and the arrays from which they are made |
| `backends` | back ends by NIXL's names, and the transports of each |
| `memory` | memory, files and objects that an agent has registered |
| `secret` | the token that agents share, and where they listen |
| `document` | the bytes of an agent's metadata |
| `peers` | what is known of other agents, and which of them know this agent |
| `inbox` | notifications, and messages between the agents themselves |
| `exchange` | metadata by sockets and by a store, in the background |
| `requests` | prepared lists and transfers |
| `agent` | `nixlAgent`, which uses all these |
"""
