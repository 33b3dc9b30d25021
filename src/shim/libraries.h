// Which library names are ours, and where ours lie: beside this object. Shared by the preloaded
// shim and the audit module. Two copies of libibverbs in one process crash it, so a name either
// goes to ours every time or never.
#pragma once

// The path of our copy when the last component of `name` is libibverbs.so, libibverbs.so.1*,
// librdmacm.so or librdmacm.so.1* and our folder has it; otherwise NULL. The pointer stays valid.
const char* verbena_library(const char* name);
