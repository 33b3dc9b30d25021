/* UCX's protocol layer with every byte looked at: ucx_perftest measures and checks none. Two
 * processes connect by socket address (which is rdma_cm where UCX_SOCKADDR_TLS_PRIORITY says so),
 * exchange tagged messages of sizes around UCX's protocol limits in both directions, and the client
 * puts into, gets from and counts in the server's memory. Prints the lanes of the connection, then
 * what was verified.
 *
 *   ucp_check listen ADDRESS PORT     says "listening" when it does
 *   ucp_check connect ADDRESS PORT
 */
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { kRegion = 3 << 20, kCounter = 64, kRounds = 20, kMaxKey = 1024 };
static const size_t kSizes[] = {1, 8, 1000, 8192, 65537, 1 << 20, (2 << 20) + 3};
enum { kSizeCount = sizeof kSizes / sizeof kSizes[0] };
enum Tag { kToServer = 1, kToClient = 2, kKey = 3, kWritten = 4, kDone = 5 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h peer;
static ucp_conn_request_h request;
static long messages, bytes;

static void require(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  printf("ucp_check: %s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static ucs_status_t status_of(ucs_status_ptr_t operation) {
  if (operation == NULL) return UCS_OK;
  if (UCS_PTR_IS_ERR(operation)) return UCS_PTR_STATUS(operation);
  ucs_status_t status;
  while ((status = ucp_request_check_status(operation)) == UCS_INPROGRESS)
    ucp_worker_progress(worker);
  ucp_request_free(operation);
  return status;
}

static void wait_for(ucs_status_ptr_t operation, const char* what) {
  require(status_of(operation), what);
}

static unsigned char expected(unsigned seed, size_t i) {
  return (unsigned char)(seed * 37 + i * 11 + (i >> 8) * 5 + (i >> 16));
}

static void fill(unsigned char* buffer, size_t size, unsigned seed) {
  for (size_t i = 0; i < size; ++i) buffer[i] = expected(seed, i);
}

static void verify(const unsigned char* buffer, size_t size, unsigned seed, const char* what) {
  for (size_t i = 0; i < size; ++i) {
    if (buffer[i] == expected(seed, i)) continue;
    printf("ucp_check: %s: byte %zu of %zu is %d, not %d\n", what, i, size, buffer[i],
           expected(seed, i));
    exit(1);
  }
  ++messages;
  bytes += (long)size;
}

static void send_tag(const void* buffer, size_t size, enum Tag tag) {
  const ucp_request_param_t param = {0};
  wait_for(ucp_tag_send_nbx(peer, buffer, size, tag, &param), "send");
}

static size_t receive_tag(void* buffer, size_t size, enum Tag tag) {
  ucp_tag_recv_info_t info = {0};
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
      .recv_info.tag_info = &info};
  ucs_status_ptr_t operation = ucp_tag_recv_nbx(worker, buffer, size, tag, ~0ull, &param);
  if (UCS_PTR_IS_ERR(operation)) require(UCS_PTR_STATUS(operation), "receive");
  ucs_status_t status;
  while ((status = ucp_tag_recv_request_test(operation, &info)) == UCS_INPROGRESS) {
    ucp_worker_progress(worker);
  }
  ucp_request_free(operation);
  require(status, "receive");
  return info.length;
}

/* Tagged messages there and back; each end checks what it gets. */
static void exchange(int is_client, unsigned char* buffer) {
  for (unsigned round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kSizeCount; ++i) {
      for (int turn = 0; turn < 2; ++turn) {
        const unsigned seed = round * 100 + (unsigned)i * 2 + (unsigned)turn;
        const enum Tag tag = turn == 0 ? kToServer : kToClient;
        if (is_client == (turn == 0)) {
          fill(buffer, kSizes[i], seed);
          send_tag(buffer, kSizes[i], tag);
          continue;
        }
        memset(buffer, 0, kSizes[i]);
        const size_t got = receive_tag(buffer, kRegion, tag);
        if (got != kSizes[i]) {
          printf("ucp_check: a message of %zu bytes, not %zu\n", got, kSizes[i]);
          exit(1);
        }
        verify(buffer, got, seed, "tagged message");
      }
    }
  }
}

struct Key {
  uint64_t address;
  uint64_t size;
  unsigned char packed[kMaxKey];
};

/* The server's half of the one-sided part: lends its memory, then looks at what the client left. */
static void lend(unsigned char* region, ucp_mem_h memory) {
  void* packed;
  struct Key key = {.address = (uint64_t)(uintptr_t)region};
  size_t size;
  require(ucp_rkey_pack(context, memory, &packed, &size), "pack the key");
  if (size > kMaxKey) exit(1);
  memset(region, 0, kRegion);
  key.size = size;
  memcpy(key.packed, packed, size);
  ucp_rkey_buffer_release(packed);
  send_tag(&key, sizeof key, kKey);

  char done;
  receive_tag(&done, 1, kWritten);
  uint64_t counter;
  memcpy(&counter, region, sizeof counter);
  if (counter != kRounds) {
    printf("ucp_check: the counter is %lu, not %d\n", (unsigned long)counter, kRounds);
    exit(1);
  }
  verify(region + kCounter, (2 << 20) + 3, 7, "put");
  fill(region + kCounter, 1 << 20, 9);
  send_tag(&done, 1, kDone);
  receive_tag(&done, 1, kDone);
}

static void count(uint64_t address, ucp_rkey_h key) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t one = 1;
    uint64_t before = ~0ull;
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
        .datatype = ucp_dt_make_contig(8),
        .reply_buffer = &before};
    wait_for(ucp_atomic_op_nbx(peer, UCP_ATOMIC_OP_ADD, &one, 1, address, key, &param),
             "fetch and add");
    if (before == round) continue;
    printf("ucp_check: fetch and add returned %lu, not %lu\n", (unsigned long)before,
           (unsigned long)round);
    exit(1);
  }
}

static void use(unsigned char* buffer) {
  struct Key key;
  receive_tag(&key, sizeof key, kKey);
  ucp_rkey_h unpacked;
  require(ucp_ep_rkey_unpack(peer, key.packed, &unpacked), "unpack the key");
  const ucp_request_param_t param = {0};
  count(key.address, unpacked);
  fill(buffer, (2 << 20) + 3, 7);
  wait_for(ucp_put_nbx(peer, buffer, (2 << 20) + 3, key.address + kCounter, unpacked, &param),
           "put");
  wait_for(ucp_ep_flush_nbx(peer, &param), "flush");
  char done = 1;
  send_tag(&done, 1, kWritten);
  receive_tag(&done, 1, kDone);
  memset(buffer, 0, 1 << 20);
  wait_for(ucp_get_nbx(peer, buffer, 1 << 20, key.address + kCounter, unpacked, &param), "get");
  verify(buffer, 1 << 20, 9, "get");
  send_tag(&done, 1, kDone);
  ucp_rkey_destroy(unpacked);
}

static void on_request(ucp_conn_request_h asked, void* unused) {
  (void)unused;
  request = asked;
}

static void make_worker(void) {
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64};
  require(ucp_init(&params, NULL, &context), "ucp_init");
  const ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                             .thread_mode = UCS_THREAD_MODE_SINGLE};
  require(ucp_worker_create(context, &worker_params, &worker), "ucp_worker_create");
}

static void serve(const struct addrinfo* at) {
  const ucp_listener_params_t params = {
      .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {.addr = at->ai_addr, .addrlen = at->ai_addrlen},
      .conn_handler = {.cb = on_request}};
  ucp_listener_h listener;
  require(ucp_listener_create(worker, &params, &listener), "listen");
  puts("listening");
  fflush(stdout);
  while (request == NULL) ucp_worker_progress(worker);
  const ucp_ep_params_t accepted = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST,
                                    .conn_request = request};
  require(ucp_ep_create(worker, &accepted, &peer), "accept");
}

static void connect_to(const struct addrinfo* at) {
  const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS |
                                                UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                  .err_mode = UCP_ERR_HANDLING_MODE_NONE,
                                  .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                  .sockaddr = {.addr = at->ai_addr, .addrlen = at->ai_addrlen}};
  require(ucp_ep_create(worker, &params, &peer), "connect");
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int is_client = strcmp(argv[1], "connect") == 0;
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
  struct addrinfo* at;
  if (getaddrinfo(argv[2], argv[3], &hints, &at) != 0) return 2;
  make_worker();
  if (is_client)
    connect_to(at);
  else
    serve(at);
  unsigned char* region;
  if (posix_memalign((void**)&region, 4096, kRegion) != 0) return 1;
  const ucp_mem_map_params_t map = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
      .address = region,
      .length = kRegion};
  ucp_mem_h memory;
  require(ucp_mem_map(context, &map, &memory), "map memory");

  exchange(is_client, region);
  ucp_ep_print_info(peer, stdout);
  if (is_client)
    use(region);
  else
    lend(region, memory);

  const ucp_request_param_t param = {0};
  /* On a busy machine the client, which has all it wants, may be gone before the server's close has
     flushed what is left: nothing but acknowledgements. */
  const ucs_status_t closed = status_of(ucp_ep_close_nbx(peer, &param));
  if (is_client || (closed != UCS_ERR_ENDPOINT_TIMEOUT && closed != UCS_ERR_CONNECTION_RESET))
    require(closed, "close");
  require(ucp_mem_unmap(context, memory), "unmap");
  printf("verified: %ld messages, %ld bytes\n", messages, bytes);
  return 0;
}
