// isotherm-packets: answers memcached requests in raw frames by a GPU, from an empty table on: the
// frames of a capture file (pcap, of Ethernet), whose replies go to another such file; or, until it
// is interrupted, the datagrams that come to the address of --listen, or the frames that come to
// the interface of --ring, or of --xdp.
//
// Whole gets of one key are answered by the GPU, all else by the CPU on the same table. Prints what
// became of the frames. Exit status: 0 done, 1 a file or the GPU failed, 2 usage.

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/device_packets.h"
#include "isotherm/gpu/item_table.h"
#include "net/packets/frame_source.h"
#include "net/packets/interface_frames.h"
#include "net/packets/item_commands.h"
#include "net/packets/packet_server.h"
#include "net/packets/pcap_frames.h"
#include "net/packets/udp_frames.h"

namespace {

using namespace isotherm;

constexpr int exit_usage = 2;
constexpr std::string_view usage =
    "Usage: isotherm-packets SOURCE [OPTIONS]\n"
    "Answers memcached requests in raw frames by a GPU, from an empty table on.\n"
    "\n"
    "Sources:\n"
    "  IN.pcap OUT.pcap      the frames of a capture file; replies go to the other file\n"
    "  --listen ADDRESS      datagrams to a UDP socket, until Ctrl-C\n"
    "  --ring INTERFACE      frames of a network interface, from a ring that the kernel copies "
    "them\n"
    "                        into (as root, or with CAP_NET_RAW), until Ctrl-C\n"
    "  --xdp INTERFACE       the same by AF_XDP, before the kernel sees them (as root)\n"
    "\n"
    "Options:\n"
    "  -h,--help             print this help message and exit\n"
    "  --version             print the version and exit\n"
    "  --port N              UDP port of the requests [11211]; 0, with --listen, takes any free "
    "port\n"
    "  --amplification N     longest reply, as a multiple of the bytes of its request; 0: any "
    "length [3]\n"
    "  --gpu N               which GPU, by the number that CUDA gives it [0]\n"
    "  --gpu-memory MB       most memory of the GPU that the table may take, at least 269; 0: no "
    "cap [0]\n";
constexpr int64_t timeout_us = 100;

struct Call {
  std::vector<std::string> files;
  std::string address;    // to listen at
  std::string interface;  // whose frames are read
  net::PacketSource source = net::PacketSource::ring;
  PacketOptions packets;
  gpu::ItemTableOptions table;
};

uint64_t number(const char* text, uint64_t most) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || value > most) {
    throw std::invalid_argument(std::string(text) + " is not a number from 0 to " +
                                std::to_string(most));
  }
  return value;
}

Call read_call(int argc, char** argv) {
  Call call;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with("--")) {
      call.files.emplace_back(word);
      continue;
    }
    const char* const text = ++i < argc ? argv[i] : "--";
    if (std::string_view(text).starts_with("--")) {
      throw std::invalid_argument(std::string(word) + " needs a value");
    }
    if (word == "--listen") {
      call.address = text;
    } else if (word == "--ring" || word == "--xdp") {
      if (!call.interface.empty()) throw std::invalid_argument("give one interface");
      call.interface = text;
      call.source = word == "--xdp" ? net::PacketSource::xdp : net::PacketSource::ring;
    } else if (word == "--port") {
      call.packets.port = static_cast<uint16_t>(number(text, 65'535));
    } else if (word == "--amplification") {
      call.packets.amplification = static_cast<uint32_t>(number(text, 1'000'000));
    } else if (word == "--gpu") {
      call.table.devices = {static_cast<int>(number(text, 1023))};
    } else if (word == "--gpu-memory") {
      call.table.gpu_memory = number(text, uint64_t{1} << 40) * 1'000'000;
    } else {
      throw std::invalid_argument("unknown option " + std::string(word));
    }
  }
  const int sources = (call.files.empty() ? 0 : 1) + (call.address.empty() ? 0 : 1) +
                      (call.interface.empty() ? 0 : 1);
  if (sources != 1 || (!call.files.empty() && call.files.size() != 2)) {
    throw std::invalid_argument("give two files, or --listen, or --ring, or --xdp");
  }
  return call;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

void print(const net::PacketCounts& counts) {
  uint64_t dropped = 0;
  for (const uint64_t of_a_kind : counts.dropped) dropped += of_a_kind;
  std::cout << counts.received << " frames in " << counts.batches
            << " batches: " << counts.by_device << " answered by the GPU, " << counts.by_cpu
            << " by the CPU (" << counts.overtaken << " of them gets behind such), " << dropped
            << " dropped\n";
}

// Answers all frames of the source; after each turn `turned` is told whether nothing waits.
template <class Turned>
void answer_all(const Call& call, net::FrameSource& frames, Turned&& turned) {
  gpu::ItemTable table(call.table);
  DevicePackets packets(table, call.packets);
  const SystemClock clock;
  net::ItemCommands commands(packets);
  net::PacketServer server(packets, frames, commands, clock, timeout_us);
  while (server.turn()) turned(server.idle());
  print(server.counts());
}

void run_files(const Call& call) {
  net::PcapFrames frames(read_file(call.files[0]));
  answer_all(call, frames, [](bool) {});
  std::ofstream file(call.files[1], std::ios::binary);
  file << frames.replies() << std::flush;
  if (!file) throw std::runtime_error(call.files[1] + ": cannot be written");
}

volatile std::sig_atomic_t interrupted = 0;

void answer_until_interrupted(const Call& call, net::FrameSource& frames) {
  constexpr int patience_ms = 100;
  std::signal(SIGINT, [](int) { interrupted = 1; });
  std::signal(SIGTERM, [](int) { interrupted = 1; });
  answer_all(call, frames, [&](bool idle) {
    if (idle) frames.wait(patience_ms);
    if (interrupted != 0) frames.end();
  });
}

void listen(Call call) {
  net::UdpFrames frames(call.address, call.packets.port);
  call.packets.port = frames.port();
  std::cout << "UDP port " << frames.port() << " at " << call.address << std::endl;
  answer_until_interrupted(call, frames);
}

void read_interface(const Call& call) {
  const auto frames = net::open_interface(call.source, call.interface, call.packets.port);
  std::cout << "UDP port " << call.packets.port << " on "
            << call.interface << (frames->way().empty() ? "" : ": " + frames->way()) << std::endl;
  answer_until_interrupted(call, *frames);
  std::cout << frames->dropped() << " frames found no room\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--help" || word == "-h" || word == "--version") {
    std::cout << (word == "--version" ? "isotherm-packets " ISOTHERM_VERSION "\n" : usage);
    return EXIT_SUCCESS;
  }
  Call call;
  try {
    call = read_call(argc, argv);
  } catch (const std::invalid_argument& error) {
    std::cerr << "isotherm-packets: " << error.what() << "\nRun with --help for the options.\n";
    return exit_usage;
  }
  try {
    if (!call.files.empty()) run_files(call);
    if (!call.address.empty()) listen(call);
    if (!call.interface.empty()) read_interface(call);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "isotherm-packets: " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
