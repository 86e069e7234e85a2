// The embedded server of a store.
#include "core/errors.h"
#include "core/text.h"
#include "store/store.h"

namespace {

struct Server {
  Gate gate{"the server"};
  weft_store_server_t *server = nullptr;
  ~Server() {
    WithoutGil release;
    weft_store_server_stop(server);
  }
  void stop() {
    if (!gate.close())
      return;
    WithoutGil release;
    weft_store_server_stop(server);
    server = nullptr;
  }
};

Server *start(nb::object address, uint16_t port, nb::object token, nb::object cert_file, nb::object key_file,
              bool insecure) {
  WhileOpening guard;
  weft_store_server_options options = WEFT_STORE_SERVER_OPTIONS_INIT;
  MaybeText where(address, "address"), right(token, "token"), cert(cert_file, "cert_file"), key(key_file, "key_file");
  options.address = where.get(), options.token = right.get();
  options.cert_file = cert.get(), options.key_file = key.get();
  options.port = port;
  options.flags = insecure ? WEFT_STORE_SERVER_INSECURE : 0;
  auto made = std::make_unique<Server>();
  int rc;
  {
    WithoutGil release;
    rc = weft_store_server_start(&made->server, &options);
  }
  check(rc);
  return made.release();
}

} // namespace

void bind_server(nb::module_ &m) {
  nb::class_<Server>(m, "Server", nb::is_weak_referenceable())
      .def_prop_ro("url",
                   [](const Server &self) {
                     self.gate.check_open();
                     return std::string(weft_store_server_url(self.server));
                   })
      .def_prop_ro("token",
                   [](const Server &self) {
                     self.gate.check_open();
                     return std::string(weft_store_server_token(self.server));
                   })
      .def_prop_ro("closed", [](const Server &self) { return self.gate.closed.load() || self.gate.forked(); })
      .def("close", &Server::stop);
  m.def("server_start", &start, nb::arg("address").none(), nb::arg("port"), nb::arg("token").none(),
        nb::arg("cert_file").none(), nb::arg("key_file").none(), nb::arg("insecure"), nb::rv_policy::take_ownership,
        nb::sig("def server_start(address: str | None, port: int, token: str | None, cert_file: str | None, key_file: "
                "str | None, insecure: bool) -> Server"));
}
