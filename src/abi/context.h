// A context's identity, as its cmd_fd carries it to ibv_import_device().
#pragma once

#include <sys/types.h>

#include "abi/objects.h"

namespace verbena::abi {

struct ContextIdentity {
  char magic[8];
  pid_t pid;  // of the process whose handles pd->handle, mr->handle mean
  char device[64];
};

// Reads the identity behind a duplicate of some context's cmd_fd; false when it is none.
bool read_identity(int cmd_fd, ContextIdentity& identity);

void close_context(Context* context);

}  // namespace verbena::abi
