// The settings with which UCX is opened: transports, devices, exclusions.
#include <dirent.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/avoided.h"
#include "base/fail.h"
#include "base/text/settings.h"
#include "transport/ucx/ucx.h"

// Options that serve better than UCX's own defaults; UCX_<name> in the environment overrides them.
static const struct {
  const char *name, *value;
  const char *for_one_of[8]; // where UCX may use none of these it warns that the option is not used; NULL: always
} defaults[] = {
    // Without it shared memory refuses endpoints that report failures.
    {"MM_ERROR_HANDLING", "y", {"all", "sm", "shm", "mm", "posix", "sysv", "xpmem"}},
    // How soon the death of a peer over shared memory shows (UCX: 20 s).
    {"KEEPALIVE_INTERVAL", "1s", {NULL}},
    // A served access is one segment (UCX_SEGMENT); faster, too.
    {"TCP_TX_SEG_SIZE", "256k", {"all", "tcp"}},
    {"TCP_RX_SEG_SIZE", "256k", {"all", "tcp"}},
    // Otherwise a connection to a host that does not answer waits in the kernel for two minutes, and the whole worker
    // with it.
    {"TCP_CONN_NB", "y", {"all", "tcp"}},
};

static bool in_environment(const char *name) {
  char variable[80];
  snprintf(variable, sizeof variable, "UCX_%s", name);
  return getenv(variable) != NULL;
}

static bool exists(const char *folder, const char *name, size_t length) {
  char path[256];
  int size = snprintf(path, sizeof path, "%s/%.*s", folder, (int)length, name);
  return size < (int)sizeof path && access(path, F_OK) == 0;
}

// The value of the option "UCX_NAME=" that UCX has by now: from its default, the environment, its configuration file,
// or us. The caller's; NULL: it is not known.
static char *value_of(const ucp_config_t *config, const char *option) {
  char *text = NULL, *value = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&text, &size);
  if (!stream)
    return NULL;
  ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
  const char *line = fclose(stream) == 0 ? strstr(text, option) : NULL;
  if (line)
    value = strndup(line + strlen(option), strcspn(line, "\n") - strlen(option));
  free(text);
  return value;
}

static bool has(const ucp_config_t *config, const char *option, const char *value) {
  char *is = value_of(config, option);
  bool same = is && strcmp(is, value) == 0;
  free(is);
  return same;
}

// Whether a setting other than UCX's own default chooses its devices, or its transports.
static bool names_devices(const ucp_config_t *config) {
  return !has(config, "UCX_NET_DEVICES=", "all");
}

static bool names_transports(const ucp_config_t *config, const struct transport_options *options) {
  return settings_value(options->settings, "TLS") || in_environment("TLS") || !has(config, "UCX_TLS=", "all");
}

static bool is_local(const char *name, size_t length) {
  return (length == 3 && memcmp(name, "tcp", 3) == 0) || (length == 4 && memcmp(name, "self", 4) == 0);
}

static bool has_rdma(void) {
  DIR *folder = opendir("/sys/class/infiniband");
  bool found = false;
  for (struct dirent *entry; folder && !found && (entry = readdir(folder));)
    found = entry->d_name[0] != '.';
  if (folder)
    closedir(folder);
  return found;
}

bool ucx_may_reach(const struct transport_options *options, const ucp_config_t *config) {
  const char *serve = settings_value(options->settings, "serve");
  const char *list = settings_value(options->settings, "TLS");
  if (serve && strcmp(serve, "auto") != 0)
    return strcmp(serve, "off") == 0;
  list = list ? list : getenv("UCX_TLS");
  if (!list || !names_transports(config, options))
    return has_rdma() || names_transports(config, options);
  for (size_t length; *list; list += length + (list[length] == ',')) {
    length = strcspn(list, ",");
    if (length > 0 && !is_local(list, length))
      return true;
  }
  return false;
}

// The interfaces stay in the list, for peers without RDMA: UCX itself uses the faster device.
static int add_interfaces(char *list, size_t cap) {
  enum { MOST = 64 };
  struct if_nameindex *interfaces = if_nameindex();
  size_t used = strlen(list), count = 0;
  for (struct if_nameindex *at = interfaces; at && at->if_index != 0 && used < cap; at++, count++)
    used += (size_t)snprintf(list + used, cap - used, ",%s", at->if_name);
  bool good = interfaces && used < cap && count <= MOST;
  if (interfaces)
    if_freenameindex(interfaces);
  return good ? 0 : -1;
}

// A preference, below the user's settings of UCX: the first port of each RDMA device. A list that does not fit is
// ignored.
static void wish_nics(ucp_config_t *config, const char *nics) {
  char list[4096] = "";
  size_t used = 0;
  if (names_devices(config))
    return;
  for (size_t length; *nics && used < sizeof list; nics += length + (nics[length] == ',')) {
    length = strcspn(nics, ",");
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%.*s:1", used ? "," : "", (int)length, nics);
  }
  if (used > 0 && used < sizeof list && add_interfaces(list, sizeof list) == 0)
    ucp_config_modify(config, "NET_DEVICES", list);
}

// UCX only warns of missing devices, and continues without a network.
static int set_device(ucp_config_t *config, const char *device) {
  for (const char *one = device; *one; one += strcspn(one, ",")) {
    one += *one == ',';
    size_t length = strcspn(one, ",:");
    if (length == 0 || strchr(one, '/') ||
        !(exists("/sys/class/net", one, length) || exists("/sys/class/infiniband", one, length)))
      return fail(WEFT_ERR_NOT_FOUND,
                  "there is no device %.*s for UCX here: see /sys/class/net and "
                  "/sys/class/infiniband",
                  (int)strcspn(one, ","), one);
  }
  ucs_status_t status = ucp_config_modify(config, "NET_DEVICES", device);
  return status == UCS_OK ? 0 : ucx_fail(status, "cannot choose the device %s", device);
}

// Before version 1.17 UCX expects an option of its TCP without that name as a prefix, and from then on with it. It
// often accepts the other form, too, but does not use it.
static ucs_status_t modify(ucp_config_t *config, const char *name, const char *value) {
  enum { WHOLE_NAMES = 117 };
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  bool whole = major * 100 + minor >= WHOLE_NAMES;
  return ucp_config_modify(config, !whole && strncmp(name, "TCP_", 4) == 0 ? name + 4 : name, value);
}

static int set(ucp_config_t *config, const char *setting) {
  char name[64];
  if (strcmp(setting, "serve=on") == 0 || strcmp(setting, "serve=off") == 0 || strcmp(setting, "serve=auto") == 0 ||
      strncmp(setting, "nics=", 5) == 0)
    return 0; // ours
  const char *equals = strchr(setting, '=');
  size_t length = equals ? (size_t)(equals - setting) : 0;
  if (length == 0 || length >= sizeof name || strspn(setting, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") < length)
    return fail(WEFT_ERR_INVALID,
                "ucx has the settings serve=on|off|auto and nics=NAME,..., and those of UCX, NAME=VALUE for "
                "UCX_NAME=VALUE, not %s",
                setting);
  memcpy(name, setting, length);
  name[length] = '\0';
  ucs_status_t status = modify(config, strncmp(name, "UCX_", 4) == 0 ? name + 4 : name, equals + 1);
  return status == UCS_OK ? 0 : ucx_fail(status, "UCX does not take the setting %s", setting);
}

// Transports of UCX that trust a peer of this host: an address or a key of these names a process or a segment on this
// host, which UCX opens, reads and writes with this process's rights. They are left out unless the user names
// transports. Within one host, the transports shm and cuda are available, which verify the objects that a peer names.
#define WITHOUT "^sm,cuda_ipc,rocm_ipc,ze_ipc"

// UCX's TCP writes to any address that a message of its protocol names (PUT requests, uct/tcp/tcp_ep.c; tried with
// 1.13, 1.18 and 1.22), so everybody who reaches its port can change this process's memory. It is used only if the user
// names it, and so trusts the network.
static int leave_out(ucp_config_t *config, bool unasked) {
  const char *list = unasked ? WITHOUT ",tcp" : WITHOUT;
  if (unasked && !has_rdma())
    return fail(WEFT_ERR_UNSUPPORTED, "there is no RDMA device, and UCX's TCP lets whoever reaches its port write to "
                                      "the memory of this process: name the transport ucx, or set UCX_TLS=tcp, where "
                                      "the network is trusted, or take ofi");
  return ucp_config_modify(config, "TLS", list) == UCS_OK
             ? 0
             : fail(WEFT_ERR_UNSUPPORTED, "this UCX does not take TLS=%s: name its transports with UCX_TLS", list);
}

// Whether UCX may use one of these, by TLS in the settings or the environment.
static bool uses(const struct transport_options *options, bool named, bool tcp, const char *const names[8]) {
  const char *list = settings_value(options->settings, "TLS");
  list = list ? list : getenv("UCX_TLS");
  list = named ? list : tcp ? "tcp" : "rc";
  if (!list || *list == '^' || !names[0])
    return true;
  for (size_t length; *list; list += length + (list[length] == ',')) {
    length = strcspn(list, ",");
    for (size_t i = 0; i < 8 && names[i]; i++) {
      if (length == strlen(names[i]) && memcmp(list, names[i], length) == 0)
        return true;
    }
  }
  return false;
}

static int set_all(ucp_config_t *config, const struct transport_options *options) {
  bool named = names_transports(config, options);
  bool unasked = options->unasked && !names_devices(config) && !options->device;
  int rc = named ? 0 : leave_out(config, unasked);
  if (rc != 0)
    return rc;
  for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
    if (!in_environment(defaults[i].name) && uses(options, named, !unasked, defaults[i].for_one_of))
      modify(config, defaults[i].name, defaults[i].value); // an option that this UCX does not know is not needed
  }
  const char *nics = settings_value(options->settings, "nics");
  if (nics && !options->device)
    wish_nics(config, nics);
  rc = options->device ? set_device(config, options->device) : 0;
  for (const char *const *setting = options->settings; rc == 0 && setting && *setting; setting++)
    rc = set(config, *setting);
  return rc;
}

// By what the list has become, whoever named it.
static int leave_out_posix(ucp_config_t *config) {
  char rest[1024];
  unsigned major, minor, release;
  ucp_get_version(&major, &minor, &release);
  if (!avoided_in(AVOIDED_UCX_POSIX, major, minor))
    return 0;
  char *list = value_of(config, "UCX_TLS=");
  bool fits = list && ucx_without_posix(list, rest, sizeof rest);
  free(list);
  if (!fits)
    return fail(WEFT_ERR_LIMIT,
                "UCX %u.%u is not to use POSIX shared memory, and its list TLS does not name what is "
                "left, in 1000 bytes",
                major, minor);
  ucs_status_t status = ucp_config_modify(config, "TLS", rest);
  return status == UCS_OK ? 0 : ucx_fail(status, "UCX %u.%u does not take TLS=%s", major, minor, rest);
}

int ucx_config(const struct transport_options *options, ucp_config_t **config) {
  ucs_status_t status = ucp_config_read(NULL, NULL, config);
  if (status != UCS_OK)
    return ucx_fail(status, "UCX cannot read its options (UCX_* in the environment)");
  int rc = set_all(*config, options);
  if (rc == 0)
    rc = leave_out_posix(*config);
  if (rc != 0)
    ucp_config_release(*config);
  return rc;
}
