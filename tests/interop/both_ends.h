/* What exchange and connections share: a TCP line on which the two ends meet, bytes that each can
   check without the other, and one printed line for each scenario. Each is one program of one file.
 */
#pragma once
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int line, failures;

static void die(const char* what) {
  perror(what);
  exit(100);
}

static void put(const void* bytes, size_t length) {
  if (write(line, bytes, length) != (ssize_t)length) die("write");
}
static void get(void* bytes, size_t length) {
  for (size_t done = 0; done < length;) {
    ssize_t n = read(line, (char*)bytes + done, length - done);
    if (n <= 0) die("the peer hung up");
    done += (size_t)n;
  }
}
static void meet(void) {
  char byte = 0;
  put(&byte, 1);
  get(&byte, 1);
}

/* NULL: waits for the other end. */
static void open_line(const char* server, const char* port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = server ? 0 : AI_PASSIVE};
  struct addrinfo* found;
  hints.ai_family = server ? AF_UNSPEC : AF_INET6;
  if (getaddrinfo(server, port, &hints, &found)) die("getaddrinfo");
  int s = socket(found->ai_family, SOCK_STREAM, 0), yes = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (server) {
    if (connect(s, found->ai_addr, found->ai_addrlen)) die("connect");
    line = s;
  } else {
    if (bind(s, found->ai_addr, found->ai_addrlen) || listen(s, 1)) die("listen");
    line = accept(s, NULL, NULL);
    if (line < 0) die("accept");
  }
  freeaddrinfo(found);
}

static uint8_t pattern(size_t i, unsigned seed) {
  return (uint8_t)(i * 167 + i / 251 + seed * 13);
}
static void fill(uint8_t* at, size_t length, unsigned seed) {
  for (size_t i = 0; i < length; ++i) at[i] = pattern(i, seed);
}
static int same(const uint8_t* at, size_t length, unsigned seed) {
  for (size_t i = 0; i < length; ++i)
    if (at[i] != pattern(i, seed)) return 0;
  return 1;
}

static void result(const char* name, int good, const char* detail, long value) {
  printf("%s: %s", name, good ? "ok\n" : "");
  if (!good) printf("%s %ld\n", detail, value);
  fflush(stdout);
  failures += !good;
}
