// The store: keys, transactions and leases.
#include "store/store.h"

#include <cstring>
#include <vector>

#include "core/errors.h"
#include "core/text.h"
#include "core/wait.h"

namespace {

nb::object made_kv(const weft_store_kv *kv) {
  return nb::make_tuple(loose_text(kv->key, kv->key_len), nb::bytes((const char *)kv->value, kv->value_len),
                        kv->create_revision, kv->mod_revision, kv->version, kv->lease);
}

nb::object made_list(const weft_store_list *list) {
  nb::list kvs;
  for (size_t i = 0; i < list->count; i++)
    kvs.append(made_kv(list->kvs[i]));
  return nb::make_tuple(kvs, list->revision, list->total, list->more != 0);
}

// One request. `call` owns everything that it uses.
void request(const Store &self, std::function<int(weft_store_t *)> call) {
  auto state = self.state;
  state->check_open();
  if (state->local) {
    int rc;
    {
      Entered entered(*state, Entered::SHARED);
      WithoutGil release;
      rc = call(state->store);
    }
    check(rc);
    return;
  }
  Wait wait;
  wait.timeout_ms = wait.attempt_ms = UINT32_MAX - 1; // the store itself has a deadline, and nothing is sent twice
  wait.attempt = [state, call](uint32_t) { return call(state->store); };
  run_wait(state, Entered::SHARED, std::move(wait));
}

Store *open_client(const std::string &endpoints, nb::object ca_file, nb::object cert_file, nb::object key_file,
                   nb::object user, nb::object password, nb::object token, uint32_t connect_ms, uint32_t request_ms) {
  WhileOpening guard;
  weft_store_options options = WEFT_STORE_OPTIONS_INIT;
  std::string where = c_text(endpoints, "endpoints");
  MaybeText ca(ca_file, "ca_file"), cert(cert_file, "cert_file"), key(key_file, "key_file"), name(user, "user"),
      secret(password, "password"), right(token, "token");
  options.endpoints = where.c_str();
  options.ca_file = ca.get(), options.cert_file = cert.get(), options.key_file = key.get();
  options.user = name.get(), options.password = secret.get(), options.token = right.get();
  options.connect_timeout_ms = connect_ms, options.request_timeout_ms = request_ms;
  auto state = std::make_shared<StoreState>();
  int rc;
  {
    WithoutGil release;
    rc = weft_store_open(&state->store, &options);
  }
  check(rc);
  return new Store(state);
}

Store *open_local() {
  WhileOpening guard;
  auto state = std::make_shared<StoreState>();
  check(weft_store_open_local(&state->store));
  state->local = true;
  return new Store(state);
}

nb::object read_range(const Store &self, nb::object key, bool prefix, uint32_t limit) {
  struct Found {
    std::string key;
    weft_store_list *list = nullptr;
    ~Found() { weft_store_list_free(list); }
  };
  auto found = std::make_shared<Found>();
  found->key = c_text(loose_bytes(key, "key"), "key");
  request(self, [found, prefix, limit](weft_store_t *store) {
    return weft_store_range(store, found->key.c_str(), prefix, limit, &found->list);
  });
  return made_list(found->list);
}

int64_t put(const Store &self, nb::object key, nb::object value, int64_t lease) {
  std::string name = c_text(loose_bytes(key, "key"), "key"), bytes = loose_bytes(value, "value");
  auto revision = std::make_shared<int64_t>(0);
  request(self, [=](weft_store_t *store) {
    return weft_store_put(store, name.c_str(), bytes.data(), bytes.size(), lease, revision.get());
  });
  return *revision;
}

size_t erase(const Store &self, nb::object key, bool prefix) {
  std::string name = c_text(loose_bytes(key, "key"), "key");
  auto deleted = std::make_shared<size_t>(0);
  request(self, [=](weft_store_t *store) { return weft_store_delete(store, name.c_str(), prefix, deleted.get()); });
  return *deleted;
}

// `wanted` is the beginning of the sentence of a TypeError.
template <class T> T number_of(nb::object source, const char *wanted) {
  T number;
  if (!nb::try_cast<T>(source, number))
    throw nb::type_error((std::string(wanted) + " is wanted").c_str());
  return number;
}

// The strings and arrays of a transaction, which the library reads until it has been committed.
struct Transaction {
  struct Condition {
    std::string key, value;
  };
  std::vector<Condition> condition_texts;
  std::vector<weft_store_compare> compares;
  std::vector<Condition> texts[2];
  std::vector<weft_store_op> ops[2];
  weft_store_txn_result *result = nullptr;
  ~Transaction() { weft_store_txn_result_free(result); }
};

// (key, target, relation, number or bytes)
void take_compares(Transaction &txn, const nb::list &list) {
  for (nb::handle entry : list) {
    nb::tuple parts = nb::cast<nb::tuple>(entry);
    weft_store_compare compare = {};
    Transaction::Condition text = {c_text(loose_bytes(parts[0], "key"), "key"), ""};
    compare.target = (weft_store_target)nb::cast<int>(parts[1]);
    compare.relation = (weft_store_relation)nb::cast<int>(parts[2]);
    if (compare.target == WEFT_STORE_VALUE)
      text.value = loose_bytes(parts[3], "value");
    else
      compare.number = number_of<int64_t>(parts[3], "Compare: operand: a number, or with the target value bytes");
    txn.condition_texts.push_back(std::move(text));
    txn.compares.push_back(compare);
  }
  for (size_t i = 0; i < txn.compares.size(); i++) {
    txn.compares[i].key = txn.condition_texts[i].key.c_str();
    txn.compares[i].value = txn.condition_texts[i].value.data();
    txn.compares[i].value_len = txn.condition_texts[i].value.size();
  }
}

// (kind, key, value, lease, prefix, limit)
void take_ops(Transaction &txn, int branch, const nb::list &list) {
  auto &texts = txn.texts[branch];
  auto &ops = txn.ops[branch];
  for (nb::handle entry : list) {
    if (!PyTuple_Check(entry.ptr()) || nb::len(entry) != 6)
      throw nb::type_error("txn: success and failure: what Op.put(), Op.delete() and Op.range() make is wanted");
    nb::tuple parts = nb::borrow<nb::tuple>(entry);
    weft_store_op op = {};
    op.kind = (weft_store_op_kind)number_of<int>(parts[0], "Op: kind: 0, 1 or 2");
    op.lease = number_of<int64_t>(parts[3], "Op: lease: the id of a lease, or 0");
    op.flags = nb::bool_(nb::object(parts[4])) ? WEFT_STORE_OP_PREFIX : 0;
    op.limit = number_of<uint32_t>(parts[5], "Op: limit: a number from 0 to 2**32 - 1");
    texts.push_back({c_text(loose_bytes(parts[1], "key"), "key"), loose_bytes(parts[2], "value")});
    ops.push_back(op);
  }
  for (size_t i = 0; i < ops.size(); i++) {
    ops[i].key = texts[i].key.c_str();
    ops[i].value = ops[i].kind == WEFT_STORE_PUT ? texts[i].value.data() : nullptr;
    ops[i].value_len = ops[i].kind == WEFT_STORE_PUT ? texts[i].value.size() : 0;
  }
}

// Returns (succeeded, revision, [a list of keys, a number of deleted keys, or None for a put]).
nb::object commit(const Store &self, nb::list compares, nb::list success, nb::list failure) {
  auto txn = std::make_shared<Transaction>();
  take_compares(*txn, compares);
  take_ops(*txn, 0, success);
  take_ops(*txn, 1, failure);
  request(self, [txn](weft_store_t *store) {
    weft_store_txn all = WEFT_STORE_TXN_INIT;
    all.compares = txn->compares.data(), all.num_compares = txn->compares.size();
    all.success = txn->ops[0].data(), all.num_success = txn->ops[0].size();
    all.failure = txn->ops[1].data(), all.num_failure = txn->ops[1].size();
    return weft_store_txn_commit(store, &all, &txn->result);
  });
  const auto &branch = txn->ops[txn->result->succeeded ? 0 : 1];
  nb::list responses;
  for (size_t i = 0; i < txn->result->num_responses; i++) {
    if (txn->result->ranges[i])
      responses.append(made_list(txn->result->ranges[i]));
    else if (branch[i].kind == WEFT_STORE_DELETE)
      responses.append(txn->result->deleted[i]);
    else
      responses.append(nb::none());
  }
  return nb::make_tuple(txn->result->succeeded != 0, txn->result->revision, responses);
}

nb::object grant(const Store &self, int64_t ttl_s) {
  auto granted = std::make_shared<std::pair<int64_t, int64_t>>(0, 0);
  request(self,
          [=](weft_store_t *store) { return weft_store_lease_grant(store, ttl_s, &granted->first, &granted->second); });
  return nb::make_tuple(granted->first, granted->second);
}

int64_t lease_call(const Store &self, int64_t lease, int (*call)(weft_store_t *, int64_t, int64_t *)) {
  auto ttl = std::make_shared<int64_t>(0);
  request(self, [=](weft_store_t *store) { return call(store, lease, ttl.get()); });
  return *ttl;
}

std::string version(const Store &self) {
  auto text = std::make_shared<std::vector<char>>(256);
  request(self, [=](weft_store_t *store) { return weft_store_version(store, text->data(), text->size(), nullptr); });
  return text->data();
}

} // namespace

void bind_store(nb::module_ &m) {
  nb::class_<Store>(m, "Store", nb::is_weak_referenceable())
      .def("range", &read_range, nb::arg("key").none(), nb::arg("prefix"), nb::arg("limit"),
           nb::sig("def range(self, key: str | bytes, prefix: bool, limit: int) -> tuple[list[tuple[str, bytes, int, "
                   "int, int, int]], int, int, bool]"))
      .def("put", &put, nb::arg("key").none(), nb::arg("value").none(), nb::arg("lease"),
           nb::sig("def put(self, key: str | bytes, value: str | bytes, lease: int) -> int"))
      .def("delete", &erase, nb::arg("key").none(), nb::arg("prefix"),
           nb::sig("def delete(self, key: str | bytes, prefix: bool) -> int"))
      .def("commit", &commit, nb::arg("compares"), nb::arg("success"), nb::arg("failure"),
           nb::sig("def commit(self, compares: list[typing.Any], success: list[typing.Any], failure: "
                   "list[typing.Any]) -> tuple[bool, int, list[typing.Any]]"))
      .def("lease_grant", &grant, nb::arg("ttl"), nb::sig("def lease_grant(self, ttl: int) -> tuple[int, int]"))
      .def(
          "lease_keepalive",
          [](const Store &self, int64_t lease) { return lease_call(self, lease, weft_store_lease_keepalive); },
          nb::arg("lease"))
      .def(
          "lease_ttl", [](const Store &self, int64_t lease) { return lease_call(self, lease, weft_store_lease_ttl); },
          nb::arg("lease"))
      .def(
          "lease_revoke",
          [](const Store &self, int64_t lease) {
            request(self, [=](weft_store_t *store) { return weft_store_lease_revoke(store, lease); });
          },
          nb::arg("lease"))
      .def("version", &version)
      .def_prop_ro("name",
                   [](const Store &self) {
                     self.state->check_open();
                     return std::string(weft_store_name(self.state->store));
                   })
      .def_prop_ro("closed", [](const Store &self) { return self.state->closed.load() || self.state->forked(); })
      .def("close", [](Store &self) { self.state->closed.store(true); }); // requests under way end by themselves
  m.def("store_open", &open_client, nb::arg("endpoints"), nb::arg("ca_file").none(), nb::arg("cert_file").none(),
        nb::arg("key_file").none(), nb::arg("user").none(), nb::arg("password").none(), nb::arg("token").none(),
        nb::arg("connect_timeout_ms"), nb::arg("request_timeout_ms"), nb::rv_policy::take_ownership,
        nb::sig("def store_open(endpoints: str, ca_file: str | None, cert_file: str | None, key_file: str | None, "
                "user: str | None, password: str | None, token: str | None, connect_timeout_ms: int, "
                "request_timeout_ms: int) -> Store"));
  m.def("store_open_local", &open_local, nb::rv_policy::take_ownership);
}
