// Plays NVIDIA's management library on a machine with 8 GPUs: four near memory node 0, four near node 1. NVML_PLAYS:
//   (unset)  all joined by a switch, 18 links each
//   pairs    two and two joined by 4 links, PCIe between the pairs
//   broken   does not start
//   empty    no GPU
//   falling  GPU 6 cannot be asked
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 8

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
} PciInfo;
typedef struct {
  unsigned long long total, free, used;
} Memory;
typedef struct {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
} Process;

static int gpus[COUNT];

static int plays(const char* what) {
  const char* set = getenv("NVML_PLAYS");
  return set != NULL && strcmp(set, what) == 0;
}
static int index_of(void* device) { return (int)((int*)device - gpus); }
static unsigned bus_of(int i) { return 0x0fu + 0x1eu * (unsigned)i; }
static void fill_pci(int i, PciInfo* info) {
  memset(info, 0, sizeof(*info));
  info->bus = bus_of(i);
  snprintf(info->bus_id, sizeof(info->bus_id), "00000000:%02X:00.0", bus_of(i));
}

int nvmlInit_v2(void) { return plays("broken") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
const char* nvmlErrorString(int status) { return status == 9 ? "Driver Not Loaded" : "GPU is lost"; }
int nvmlSystemGetDriverVersion(char* text, unsigned n) { return snprintf(text, n, "580.65.06") < 0; }
int nvmlDeviceGetCount_v2(unsigned* n) {
  *n = plays("empty") ? 0 : COUNT;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) {
  if (i >= COUNT) return 2;
  if (i == 6 && plays("falling")) return 15;
  *device = gpus + i;
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned n) {
  (void)device;
  return snprintf(text, n, "NVIDIA H200") < 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned n) {
  const int i = index_of(device);
  return snprintf(text, n, "GPU-%c0000000-0000-0000-0000-00000000000%d", 'a' + i, i) < 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  fill_pci(index_of(device), info);
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 150754820096ull;
  memory->used = index_of(device) == 5 ? 140000000000ull : 600000000ull;
  memory->free = memory->total - memory->used;
  return 0;
}
// Twenty on GPU 5, of which one does not tell its memory.
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* n, Process* list) {
  const unsigned room = *n;
  *n = index_of(device) == 5 ? 20 : 0;
  if (room < *n) return 7;
  for (unsigned i = 0; i < *n; ++i) {
    memset(list + i, 0, sizeof(*list));
    list[i].pid = (unsigned)getpid();
    list[i].bytes = i == 19 ? ~0ull : 5000000000ull;
  }
  return 0;
}
int nvmlDeviceGetClockInfo(void* device, unsigned kind, unsigned* mhz) {
  *mhz = kind == 1 ? 345u + (unsigned)index_of(device) : 3201u;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void* device, unsigned kind, unsigned* mhz) {
  (void)device;
  *mhz = kind == 1 ? 1980 : 3201;
  return 0;
}
int nvmlDeviceGetMemoryBusWidth(void* device, unsigned* bits) {
  (void)device;
  *bits = 6144;
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) {
  *mw = 80500u + 1000u * (unsigned)index_of(device);
  return 0;
}
int nvmlDeviceGetPowerManagementLimit(void* device, unsigned* mw) {
  (void)device;
  *mw = 700000;
  return 0;
}
int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (sensor != 0) return 2;
  *celsius = 30u + (unsigned)index_of(device);
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void* device, unsigned* n) {
  (void)device;
  *n = 5;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void* device, unsigned* n) {
  (void)device;
  *n = 16;
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* up) {
  (void)device;
  *up = link < (plays("pairs") ? 4u : 18u);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* kind) {
  (void)device;
  (void)link;
  *kind = plays("pairs") ? 0 : 2;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  (void)link;
  if (!plays("pairs")) return 3;
  fill_pci(index_of(device) ^ 1, info);
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
  const int i = index_of(a), j = index_of(b);
  *level = i / 2 == j / 2 ? 10 : i / 4 == j / 4 ? 40 : 50;
  return 0;
}
int nvmlDeviceGetMemoryAffinity(void* device, unsigned words, unsigned long* set, unsigned scope) {
  if (words == 0 || scope != 0) return 2;
  memset(set, 0, words * sizeof(*set));
  set[0] = index_of(device) < 4 ? 1 : 2;
  return 0;
}
