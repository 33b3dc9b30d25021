// An iSCSI initiator (libiscsi) that writes a file to a disk from its first block on, in pieces of
// many sizes, reads all of it back in other pieces, and leaves what it read in a second file. The
// test compares that file, the first one and what the target holds.
//   iser_copy URL INITIATOR-NAME FROM TO      (FROM: a multiple of 512 bytes)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>

enum { kBlock = 512 };

static void fail(struct iscsi_context* iscsi, const char* what) {
  fprintf(stderr, "iser_copy: %s: %s\n", what, iscsi ? iscsi_get_error(iscsi) : "");
  exit(1);
}

static struct scsi_task* good(struct iscsi_context* iscsi, struct scsi_task* task,
                              const char* what) {
  if (!task || task->status != SCSI_STATUS_GOOD) fail(iscsi, what);
  return task;
}

// Blocks of the next piece: 1, 2, 4, ... `most`, again and again.
static uint32_t next_piece(uint32_t last, uint32_t most, uint32_t left) {
  uint32_t piece = last >= most ? 1 : last * 2;
  return piece < left ? piece : left;
}

static void write_all(struct iscsi_context* iscsi, int lun, unsigned char* bytes, uint32_t blocks) {
  uint32_t piece = 512;
  for (uint32_t at = 0; at < blocks; at += piece) {
    piece = next_piece(piece, 512, blocks - at);
    scsi_free_scsi_task(good(iscsi,
                             iscsi_write10_sync(iscsi, lun, at, bytes + (size_t)at * kBlock,
                                                piece * kBlock, kBlock, 0, 0, 0, 0, 0),
                             "WRITE"));
  }
}

static void read_all(struct iscsi_context* iscsi, int lun, unsigned char* bytes, uint32_t blocks) {
  uint32_t piece = 512;
  for (uint32_t at = 0; at < blocks; at += piece) {
    piece = next_piece(piece, 512, blocks - at);
    struct scsi_task* task = good(
        iscsi, iscsi_read10_sync(iscsi, lun, at, piece * kBlock, kBlock, 0, 0, 0, 0, 0), "READ");
    if (task->datain.size != (int)(piece * kBlock)) fail(NULL, "a short READ");
    memcpy(bytes + (size_t)at * kBlock, task->datain.data, piece * kBlock);
    scsi_free_scsi_task(task);
  }
}

static unsigned char* content(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) fail(NULL, path);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char* bytes = malloc(*size);
  if (!bytes || fread(bytes, 1, *size, file) != *size) fail(NULL, path);
  fclose(file);
  return bytes;
}

int main(int argc, char** argv) {
  if (argc != 5) fail(NULL, "usage: iser_copy URL INITIATOR FROM TO");
  struct iscsi_context* iscsi = iscsi_create_context(argv[2]);
  struct iscsi_url* url = iscsi ? iscsi_parse_full_url(iscsi, argv[1]) : NULL;
  if (!url) fail(iscsi, argv[1]);
  size_t size;
  unsigned char* bytes = content(argv[3], &size);
  iscsi_set_session_type(iscsi, ISCSI_SESSION_NORMAL);
  iscsi_set_header_digest(iscsi, ISCSI_HEADER_DIGEST_NONE);
  if (iscsi_full_connect_sync(iscsi, url->portal, url->lun)) fail(iscsi, "login");
  write_all(iscsi, url->lun, bytes, (uint32_t)(size / kBlock));
  memset(bytes, 0, size);
  read_all(iscsi, url->lun, bytes, (uint32_t)(size / kBlock));
  FILE* to = fopen(argv[4], "wb");
  if (!to || fwrite(bytes, 1, size, to) != size || fclose(to)) fail(NULL, argv[4]);
  if (iscsi_logout_sync(iscsi)) fail(iscsi, "logout");
  printf("copied %zu bytes there and back\n", size);
  return 0;  // without iscsi_destroy_context, whose order of tearing down is not under test
}
