/* What a parallel program asks of MPI, with every element looked at: messages around a ring in both
 * protocols (eager and rendezvous), reductions, an all-to-all exchange, and one-sided Put, Get and
 * Accumulate between fences. Each rank prints "rank N of M: K values verified".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 10, kLargest = 1 << 19, kReduced = 100003, kBlock = 4099, kWindow = 65537 };

static int rank, size;
static long verified;

static void expect(long long got, long long wanted, const char* what, int index) {
  ++verified;
  if (got == wanted) return;
  printf("rank %d: %s: element %d is %lld, not %lld\n", rank, what, index, got, wanted);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static int* numbers(int count) {
  int* found = malloc(sizeof(int) * (size_t)count);
  if (found == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  return found;
}

/* Each rank sends to the next one, blocking and not, from one integer to 2 MiB. */
static void ring(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int *out = numbers(kLargest), *in = numbers(kLargest);
  for (int round = 0; round < kRounds; ++round) {
    for (int count = 1; count <= kLargest; count *= 8) {
      for (int i = 0; i < count; ++i) {
        out[i] = rank * 1000003 + round * 101 + i;
        in[i] = -1;
      }
      MPI_Status status;
      if (round % 2 == 0) {
        MPI_Request sent;
        MPI_Isend(out, count, MPI_INT, next, count, MPI_COMM_WORLD, &sent);
        MPI_Recv(in, count, MPI_INT, before, count, MPI_COMM_WORLD, &status);
        MPI_Wait(&sent, MPI_STATUS_IGNORE);
      } else if (rank % 2 == 0) {
        MPI_Send(out, count, MPI_INT, next, count, MPI_COMM_WORLD);
        MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, count, MPI_COMM_WORLD, &status);
      } else {
        MPI_Recv(in, count, MPI_INT, MPI_ANY_SOURCE, count, MPI_COMM_WORLD, &status);
        MPI_Send(out, count, MPI_INT, next, count, MPI_COMM_WORLD);
      }
      int got;
      MPI_Get_count(&status, MPI_INT, &got);
      expect(status.MPI_SOURCE, before, "source of a message", round);
      expect(got, count, "length of a message", round);
      for (int i = 0; i < count; ++i)
        expect(in[i], before * 1000003 + round * 101 + i, "message", i);
    }
  }
  free(out);
  free(in);
}

static void reduce(void) {
  long long *own = malloc(sizeof(long long) * kReduced),
            *sum = malloc(sizeof(long long) * kReduced);
  if (own == NULL || sum == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
  for (int i = 0; i < kReduced; ++i) own[i] = (long long)(rank + 1) * i;
  MPI_Allreduce(own, sum, kReduced, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kReduced; ++i)
    expect(sum[i], (long long)size * (size + 1) / 2 * i, "sum of all ranks", i);
  int least = rank + 7;
  MPI_Allreduce(MPI_IN_PLACE, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  expect(least, 7, "least of all ranks", 0);
  if (rank == 2 % size)
    for (int i = 0; i < kReduced; ++i) own[i] = 5 * i - 1;
  MPI_Bcast(own, kReduced, MPI_LONG_LONG, 2 % size, MPI_COMM_WORLD);
  for (int i = 0; i < kReduced; ++i) expect(own[i], 5 * i - 1, "broadcast", i);
  free(own);
  free(sum);
}

static void all_to_all(void) {
  int *out = numbers(kBlock * size), *in = numbers(kBlock * size);
  for (int to = 0; to < size; ++to)
    for (int i = 0; i < kBlock; ++i) out[to * kBlock + i] = rank * 7000000 + to * 100000 + i;
  MPI_Alltoall(out, kBlock, MPI_INT, in, kBlock, MPI_INT, MPI_COMM_WORLD);
  for (int from = 0; from < size; ++from)
    for (int i = 0; i < kBlock; ++i)
      expect(in[from * kBlock + i], from * 7000000 + rank * 100000 + i, "all to all", i);
  free(out);
  free(in);
}

/* Every rank puts into the next one's window, reads the one before, and adds to a counter of rank
 * 0. */
static void one_sided(void) {
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  int *window, *own = numbers(kWindow);
  MPI_Win win;
  MPI_Win_allocate(sizeof(int) * (kWindow + 1), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window,
                   &win);
  for (int i = 0; i <= kWindow; ++i) window[i] = 0;
  for (int i = 0; i < kWindow; ++i) own[i] = rank * 90001 + i;
  MPI_Win_fence(0, win);
  MPI_Put(own, kWindow, MPI_INT, next, 0, kWindow, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kWindow; ++i) expect(window[i], before * 90001 + i, "put", i);
  MPI_Win_fence(0, win);
  const int second = (size + before - 1) % size; /* whose numbers the window before me holds */
  MPI_Get(own, kWindow, MPI_INT, before, 0, kWindow, MPI_INT, win);
  MPI_Win_fence(0, win);
  for (int i = 0; i < kWindow; ++i) expect(own[i], second * 90001 + i, "get", i);
  for (int i = 0; i < kRounds; ++i) {
    const int add = rank + 1;
    MPI_Accumulate(&add, 1, MPI_INT, 0, kWindow, 1, MPI_INT, MPI_SUM, win);
  }
  MPI_Win_fence(0, win);
  if (rank == 0) expect(window[kWindow], kRounds * size * (size + 1) / 2, "accumulate", 0);
  MPI_Win_free(&win);
  free(own);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ring();
  reduce();
  all_to_all();
  one_sided();
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d of %d: %ld values verified\n", rank, size, verified);
  MPI_Finalize();
  return 0;
}
