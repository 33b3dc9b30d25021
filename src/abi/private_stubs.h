// The few bodies behind the many names of private_nodes.c, which is the only file to include this.
// C, because the names are made by assembler directives on aliases within one file.
#pragma once

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wattribute-alias"

struct ibv_context;

int verbena_query_gid_type(struct ibv_context* context, uint8_t port, unsigned index,
                           uint32_t* type);
#define GID_TYPE_PARAMETERS \
  struct ibv_context *context, uint8_t port, unsigned index, uint32_t *type
#define GID_TYPE_CALL verbena_query_gid_type(context, port, index, type)

int verbena_stub_errno(void) {
  return EOPNOTSUPP;
}
int verbena_stub_zero(void) {
  return 0;
}
void verbena_stub_void(void) {}
// A 64-bit zero: a null pointer, or a GUID that says nothing.
void* verbena_stub_null(void) {
  errno = EOPNOTSUPP;
  return NULL;
}
unsigned char verbena_stub_flag;

// ibv_get_device_list() of IBVERBS_1.0: no devices.
void* verbena_stub_empty_list(int* count) {
  if (count) *count = 0;
  return calloc(1, sizeof(void*));
}
void verbena_stub_free(void* list) {
  free(list);
}
