// Both ends of a session of librpma, as its users write them. The server shows a region of
// persistent memory; the client reads it, writes it over in pieces, makes an 8-byte atomic write,
// flushes, and says so in a message with immediate data; the server compares every byte and
// answers.
//   rpma_pair server ADDRESS PORT BYTES     rpma_pair client ADDRESS PORT BYTES PIECE
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

enum { kMessage = 64, kImmediate = 0x5eed };

static const uint64_t kMark = 0x0123456789abcdef;

struct session {
  size_t bytes;
  unsigned char* region;  // the server's, or the client's copy of it; two messages behind it
  struct rpma_peer* peer;
  struct rpma_mr_local *mr, *messages;
  struct rpma_conn* conn;
  struct rpma_cq* cq;
  int early;  // the answer was here before the end of our SEND was: its ACK may be lost
  struct ibv_wc answer;
};

static void must(int error, const char* call) {
  if (!error) return;
  fprintf(stderr, "rpma_pair: %s: %s\n", call, rpma_err_2str(error));
  exit(1);
}

static void claim(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "rpma_pair: not so: %s\n", what);
  exit(1);
}

static unsigned char before(size_t at) {
  return (unsigned char)(at * 7 + (at >> 8));
}
static unsigned char after(size_t at) {
  return (unsigned char)(at * 13 + (at >> 9) + 1);
}

static char* message(struct session* s, int received) {
  return (char*)s->region + s->bytes + (received ? kMessage : 0);
}

static void open_session(struct session* s, const char* address,
                         enum rpma_util_ibv_context_type type, size_t bytes) {
  struct ibv_context* device;
  must(rpma_utils_get_ibv_context(address, type, &device), "rpma_utils_get_ibv_context");
  must(rpma_peer_new(device, &s->peer), "rpma_peer_new");
  s->bytes = bytes;
  s->region = aligned_alloc(4096, (bytes + 2 * kMessage + 4095) / 4096 * 4096);
  claim(s->region != NULL, "memory enough");
  must(rpma_mr_reg(s->peer, s->region, bytes,
                   RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
                       RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
                       RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
                   &s->mr),
       "rpma_mr_reg");
  must(rpma_mr_reg(s->peer, message(s, 0), 2 * kMessage, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV,
                   &s->messages),
       "rpma_mr_reg");
}

static void expect_event(struct session* s, enum rpma_conn_event wanted) {
  enum rpma_conn_event event;
  must(rpma_conn_next_event(s->conn, &event), "rpma_conn_next_event");
  if (event == wanted) return;
  fprintf(stderr, "rpma_pair: %s instead of %s\n", rpma_utils_conn_event_2str(event),
          rpma_utils_conn_event_2str(wanted));
  exit(1);
}

static struct ibv_wc next_completion(struct session* s) {
  struct ibv_wc wc;
  int error = rpma_cq_get_wc(s->cq, 1, &wc, NULL);
  while (error == RPMA_E_NO_COMPLETION) {
    must(rpma_cq_wait(s->cq), "rpma_cq_wait");
    error = rpma_cq_get_wc(s->cq, 1, &wc, NULL);
  }
  must(error, "rpma_cq_get_wc");
  return wc;
}

static struct ibv_wc completion(struct session* s, enum ibv_wc_opcode opcode) {
  if (opcode == IBV_WC_RECV && s->early) return s->answer;
  struct ibv_wc wc = next_completion(s);
  if (opcode == IBV_WC_SEND && wc.opcode == IBV_WC_RECV) {
    s->early = 1;
    s->answer = wc;
    wc = next_completion(s);
  }
  if (wc.status != IBV_WC_SUCCESS || wc.opcode != opcode) {
    fprintf(stderr, "rpma_pair: completion %d, %s, instead of %d\n", wc.opcode,
            ibv_wc_status_str(wc.status), opcode);
    exit(1);
  }
  return wc;
}

static void say(struct session* s, const char* text, uint32_t immediate) {
  snprintf(message(s, 0), kMessage, "%s", text);
  must(rpma_send_with_imm(s->conn, s->messages, 0, kMessage, RPMA_F_COMPLETION_ALWAYS, immediate,
                          NULL),
       "rpma_send_with_imm");
  completion(s, IBV_WC_SEND);
}

static void hear(struct session* s, const char* text, uint32_t immediate) {
  struct ibv_wc wc = completion(s, IBV_WC_RECV);
  claim(wc.byte_len == kMessage && (wc.wc_flags & IBV_WC_WITH_IMM),
        "a whole message with immediate");
  claim(wc.imm_data == htonl(immediate), "the immediate that was sent");
  claim(strcmp(message(s, 1), text) == 0, text);
}

static void close_session(struct session* s, struct rpma_mr_remote* remote) {
  must(rpma_conn_disconnect(s->conn), "rpma_conn_disconnect");
  expect_event(s, RPMA_CONN_CLOSED);
  must(rpma_conn_delete(&s->conn), "rpma_conn_delete");
  if (remote) must(rpma_mr_remote_delete(&remote), "rpma_mr_remote_delete");
  must(rpma_mr_dereg(&s->messages), "rpma_mr_dereg");
  must(rpma_mr_dereg(&s->mr), "rpma_mr_dereg");
  must(rpma_peer_delete(&s->peer), "rpma_peer_delete");
}

static void server(const char* address, const char* port, size_t bytes) {
  struct session s = {0};
  open_session(&s, address, RPMA_UTIL_IBV_CONTEXT_LOCAL, bytes);
  for (size_t at = 0; at < bytes; ++at) s.region[at] = before(at);
  struct rpma_ep* listener;
  must(rpma_ep_listen(s.peer, address, port, &listener), "rpma_ep_listen");
  puts("listening");
  fflush(stdout);

  unsigned char descriptor[256];
  size_t size;
  must(rpma_mr_get_descriptor_size(s.mr, &size), "rpma_mr_get_descriptor_size");
  claim(size <= sizeof descriptor, "a short descriptor");
  must(rpma_mr_get_descriptor(s.mr, descriptor), "rpma_mr_get_descriptor");
  struct rpma_conn_private_data shown = {descriptor, (uint8_t)size};
  struct rpma_conn_req* request;
  must(rpma_ep_next_conn_req(listener, NULL, &request), "rpma_ep_next_conn_req");
  must(rpma_conn_req_recv(request, s.messages, kMessage, kMessage, NULL), "rpma_conn_req_recv");
  must(rpma_conn_req_connect(&request, &shown, &s.conn), "rpma_conn_req_connect");
  expect_event(&s, RPMA_CONN_ESTABLISHED);
  must(rpma_conn_get_cq(s.conn, &s.cq), "rpma_conn_get_cq");

  hear(&s, "written", kImmediate);
  claim(memcmp(s.region, &kMark, sizeof kMark) == 0, "the atomic write is there");
  for (size_t at = sizeof kMark; at < bytes; ++at)
    claim(s.region[at] == after(at), "every byte is the client's");
  say(&s, "seen", kImmediate + 1);
  expect_event(&s, RPMA_CONN_CLOSED);
  must(rpma_conn_disconnect(s.conn), "rpma_conn_disconnect");
  must(rpma_conn_delete(&s.conn), "rpma_conn_delete");
  must(rpma_ep_shutdown(&listener), "rpma_ep_shutdown");
  printf("server: %zu bytes are the client's\n", bytes);
}

static struct rpma_mr_remote* connect_to(struct session* s, const char* address, const char* port) {
  struct rpma_conn_req* request;
  must(rpma_conn_req_new(s->peer, address, port, NULL, &request), "rpma_conn_req_new");
  must(rpma_conn_req_recv(request, s->messages, kMessage, kMessage, NULL), "rpma_conn_req_recv");
  must(rpma_conn_req_connect(&request, NULL, &s->conn), "rpma_conn_req_connect");
  expect_event(s, RPMA_CONN_ESTABLISHED);
  must(rpma_conn_get_cq(s->conn, &s->cq), "rpma_conn_get_cq");
  struct rpma_conn_private_data shown;
  must(rpma_conn_get_private_data(s->conn, &shown), "rpma_conn_get_private_data");
  // On RoCE private data comes padded with zeros; the descriptor is at its beginning.
  struct rpma_mr_remote* remote;
  size_t size;
  must(rpma_mr_get_descriptor_size(s->mr, &size), "rpma_mr_get_descriptor_size");
  must(rpma_mr_remote_from_descriptor(shown.ptr, size, &remote), "rpma_mr_remote_from_descriptor");
  must(rpma_mr_remote_get_size(remote, &size), "rpma_mr_remote_get_size");
  claim(size == s->bytes, "the region has the size that was agreed");
  return remote;
}

static void client(const char* address, const char* port, size_t bytes, size_t piece) {
  struct session s = {0};
  open_session(&s, address, RPMA_UTIL_IBV_CONTEXT_REMOTE, bytes);
  struct rpma_mr_remote* remote = connect_to(&s, address, port);
  for (size_t at = 0; at < bytes; at += piece) {
    size_t length = piece < bytes - at ? piece : bytes - at;
    must(rpma_read(s.conn, s.mr, at, remote, at, length, RPMA_F_COMPLETION_ALWAYS, NULL),
         "rpma_read");
    completion(&s, IBV_WC_RDMA_READ);
  }
  for (size_t at = 0; at < bytes; ++at)
    claim(s.region[at] == before(at), "every byte is the server's");

  for (size_t at = 0; at < bytes; ++at) s.region[at] = after(at);
  for (size_t at = 0; at < bytes; at += piece) {
    size_t length = piece < bytes - at ? piece : bytes - at;
    must(rpma_write(s.conn, remote, at, s.mr, at, length, RPMA_F_COMPLETION_ALWAYS, NULL),
         "rpma_write");
    completion(&s, IBV_WC_RDMA_WRITE);
  }
  must(rpma_atomic_write(s.conn, remote, 0, (const char*)&kMark, RPMA_F_COMPLETION_ALWAYS, NULL),
       "rpma_atomic_write");
  completion(&s, IBV_WC_RDMA_WRITE);
  must(rpma_flush(s.conn, remote, 0, bytes, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
                  NULL),
       "rpma_flush");
  completion(&s, IBV_WC_RDMA_READ);  // what librpma 1.x flushes with
  say(&s, "written", kImmediate);
  hear(&s, "seen", kImmediate + 1);
  close_session(&s, remote);
  printf("client: read and wrote %zu bytes in pieces of %zu\n", bytes, piece);
}

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "server") == 0) {
    server(argv[2], argv[3], strtoull(argv[4], NULL, 10));
  } else if (argc == 6 && strcmp(argv[1], "client") == 0) {
    client(argv[2], argv[3], strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
  } else {
    fprintf(stderr, "usage: rpma_pair server|client ADDRESS PORT BYTES [PIECE]\n");
    return 2;
  }
  return 0;
}
