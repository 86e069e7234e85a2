// Whether a link's peer can be reached, and if not, why.
#ifndef EP_LINK_LINK_STATE_H
#define EP_LINK_LINK_STATE_H

enum ep_link_state {
  EP_LINK_UP,
  EP_LINK_LEFT,    // the peer closed cleanly
  EP_LINK_DEAD,    // the peer's end hung up
  EP_LINK_SILENT,  // a deadline passed
  EP_LINK_BROKEN,  // it wrote invalid data
  EP_LINK_DOUBTED, // a deadline passed, but it is more likely that this rank is the isolated one; or the peer reports
                   // this rank as lost
};

#endif
