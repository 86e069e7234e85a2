// The URLs of objects, by the server, the region and the bucket.
#include "cmocka_all.h"

#include <stdlib.h>

#include "transport/object/object.h"

static const struct {
  const char *settings[3], *path, *url;
} urls[] = {
    {{"region=us-west-2"}, "bucket/a/key", "https://bucket.s3.us-west-2.amazonaws.com/a/key"},
    // Regions with domains of their own.
    {{"region=cn-north-1"}, "bucket/key", "https://bucket.s3.cn-north-1.amazonaws.com.cn/key"},
    {{"region=eusc-de-east-1"}, "bucket/key", "https://bucket.s3.eusc-de-east-1.amazonaws.eu/key"},
    {{"region=us-gov-west-1"}, "bucket/key", "https://bucket.s3.us-gov-west-1.amazonaws.com/key"},
    // A certificate for *.s3.us-west-2.amazonaws.com does not fit a host with more dots; other letters make no host.
    {{"region=us-west-2"}, "my.bucket/key", "https://s3.us-west-2.amazonaws.com/my.bucket/key"},
    {{"region=us-west-2"}, "My_Bucket/key", "https://s3.us-west-2.amazonaws.com/My_Bucket/key"},
    {{"region=cn-north-1"}, "my.bucket/key", "https://s3.cn-north-1.amazonaws.com.cn/my.bucket/key"},
    // A server of one's own.
    {{"endpoint=http://[::1]:9000/"}, "bucket/key", "http://[::1]:9000/bucket/key"},
    {{"endpoint=http://localhost:9000", "style=virtual"}, "bucket/key", "http://bucket.localhost:9000/key"},
    {{"endpoint=http://localhost:9000", "style=virtual"}, "my.bucket/key", "http://localhost:9000/my.bucket/key"},
    {{"region=cn-north-1", "endpoint=http://localhost:9000"}, "bucket/key", "http://localhost:9000/bucket/key"},
};

static void test_urls(void **state) {
  (void)state;
  static const char *const variables[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID",
                                          "AWS_SECRET_ACCESS_KEY"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    unsetenv(variables[i]);
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    const struct transport_options options = {.size = sizeof options, .settings = urls[i].settings};
    struct object_settings set;
    char *url = NULL;
    assert_int_equal(object_settings_read(&set, &options), 0);
    assert_int_equal(object_url(&set, urls[i].path, &url), 0);
    assert_string_equal(url, urls[i].url);
    free(url);
    object_settings_free(&set);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_urls)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
