#include "net/packets/xdp_program.h"

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>
#include <vector>

namespace isotherm::net {
namespace {

// What names a datagram: both addresses, and its number; IPv4 fills a part of it.
struct FragmentKey {
  uint64_t addresses[4];
  uint64_t number;
};

template <class T>
uint64_t address_of(const T* of) {
  return reinterpret_cast<uint64_t>(of);
}

long call_bpf(bpf_cmd command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

int make_map(bpf_map_type type, uint32_t key_bytes, uint32_t value_bytes, uint32_t entries) {
  bpf_attr map{};
  map.map_type = type;
  map.key_size = key_bytes;
  map.value_size = value_bytes;
  map.max_entries = entries;
  const long made = call_bpf(BPF_MAP_CREATE, map);
  if (made < 0) fail_by_errno("a map of an XDP program");
  return static_cast<int>(made);
}

// Instructions one after the other; jumps go to marks, wherever these are set.
class Assembler {
 public:
  enum class Mark : uint8_t { v4, fragment, another, later, port, hand_over, pass };
  static constexpr size_t marks = 7;
  using Register = uint8_t;
  static constexpr Register r0 = 0, r1 = 1, r2 = 2, r3 = 3, r4 = 4, frame_pointer = 10;
  // That calls leave alone.
  static constexpr Register context = 6, data = 7, end = 8, udp = 9;

  void load(uint8_t size, Register to, Register from, int16_t at) {
    put(BPF_LDX | BPF_MEM | size, to, from, at, 0);
  }
  void store(uint8_t size, Register to, int16_t at, Register from) {
    put(BPF_STX | BPF_MEM | size, to, from, at, 0);
  }
  void set(Register to, int32_t number) { put(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, number); }
  void copy(Register to, Register from) { put(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void change(uint8_t by, Register it, int32_t number) {
    put(BPF_ALU64 | by | BPF_K, it, 0, 0, number);
  }
  void add(Register to, Register from) { put(BPF_ALU64 | BPF_ADD | BPF_X, to, from, 0, 0); }
  void go(Mark to) { jump(BPF_JMP | BPF_JA, 0, 0, 0, to); }
  void go_if(uint8_t test, Register it, int32_t number, Mark to) {
    jump(BPF_JMP | test | BPF_K, it, 0, number, to);
  }
  // Unless the frame has so many bytes from there on.
  void need(Register from, int32_t bytes) {
    copy(r2, from);
    change(BPF_ADD, r2, bytes);
    jump(BPF_JMP | BPF_JGT | BPF_X, r2, end, 0, Mark::pass);
  }
  void set_map(Register to, int map) {
    put(BPF_LD | BPF_DW | BPF_IMM, to, BPF_PSEUDO_MAP_FD, 0, map);
    put(0, 0, 0, 0, 0);
  }
  void call(bpf_func_id function) { put(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void leave() { put(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
  void mark(Mark here) { marks_[static_cast<size_t>(here)] = code_.size(); }

  std::vector<bpf_insn> finish() {
    for (const auto& [at, to] : jumps_) {
      code_[at].off = static_cast<int16_t>(marks_[static_cast<size_t>(to)] - at - 1);
    }
    return std::move(code_);
  }

 private:
  void put(uint8_t code, Register to, Register from, int16_t at, int32_t number) {
    bpf_insn one{};
    one.code = code;
    one.dst_reg = to & 15;
    one.src_reg = from & 15;
    one.off = at;
    one.imm = number;
    code_.push_back(one);
  }
  void jump(uint8_t code, Register it, Register other, int32_t number, Mark to) {
    jumps_.emplace_back(code_.size(), to);
    put(code, it, other, 0, number);
  }

  std::vector<bpf_insn> code_;
  std::vector<std::pair<size_t, Mark>> jumps_;
  std::array<size_t, marks> marks_{};
};

using CodeMark = Assembler::Mark;

constexpr int32_t ethernet_head = 14;
constexpr int32_t v4_head = 20;
constexpr int32_t v6_head = 40;
constexpr int32_t udp_head = 8;
constexpr int32_t fragment_head = 8;
constexpr int16_t key_at = -static_cast<int16_t>(sizeof(FragmentKey));  // on the stack

constexpr int16_t on_stack(size_t at) {
  return static_cast<int16_t>(key_at + static_cast<int>(at));
}
constexpr int16_t in_frame(int32_t at) { return static_cast<int16_t>(ethernet_head + at); }

// Which kind of packet it is; `udp` becomes where UDP begins, in a first fragment too.
void assemble_v6(Assembler& code) {
  using A = Assembler;
  code.need(A::data, ethernet_head + v6_head + fragment_head);
  code.load(BPF_B, A::r3, A::data, in_frame(6));
  code.copy(A::udp, A::data);
  code.change(BPF_ADD, A::udp, ethernet_head + v6_head);
  code.go_if(BPF_JEQ, A::r3, IPPROTO_UDP, CodeMark::port);
  code.go_if(BPF_JNE, A::r3, IPPROTO_FRAGMENT, CodeMark::pass);
  code.load(BPF_B, A::r3, A::udp, 0);
  code.go_if(BPF_JNE, A::r3, IPPROTO_UDP, CodeMark::pass);
  for (int16_t i = 0; i < 4; ++i) {
    code.load(BPF_DW, A::r3, A::data, static_cast<int16_t>(in_frame(8) + i * 8));
    code.store(BPF_DW, A::frame_pointer, on_stack(static_cast<size_t>(i) * 8), A::r3);
  }
  code.load(BPF_W, A::r3, A::udp, 4);
  code.store(BPF_DW, A::frame_pointer, on_stack(offsetof(FragmentKey, number)), A::r3);
  code.load(BPF_H, A::r3, A::udp, 2);
  code.change(BPF_AND, A::r3, htons(0xfff8));
  code.change(BPF_ADD, A::udp, fragment_head);
  code.go(CodeMark::fragment);
}

void assemble_v4(Assembler& code) {
  using A = Assembler;
  code.mark(CodeMark::v4);
  code.load(BPF_B, A::r3, A::data, in_frame(9));
  code.go_if(BPF_JNE, A::r3, IPPROTO_UDP, CodeMark::pass);
  code.load(BPF_B, A::udp, A::data, in_frame(0));
  code.change(BPF_AND, A::udp, 15);
  code.change(BPF_LSH, A::udp, 2);
  code.add(A::udp, A::data);
  code.change(BPF_ADD, A::udp, ethernet_head);
  code.load(BPF_H, A::r3, A::data, in_frame(6));
  code.copy(A::r4, A::r3);
  code.change(BPF_AND, A::r4, htons(0x3fff));  // more, or not the first
  code.go_if(BPF_JEQ, A::r4, 0, CodeMark::port);
  code.change(BPF_AND, A::r3, htons(0x1fff));
  code.load(BPF_DW, A::r4, A::data, in_frame(12));
  code.store(BPF_DW, A::frame_pointer, on_stack(0), A::r4);
  code.set(A::r4, 0);
  for (size_t i = 1; i < 4; ++i) code.store(BPF_DW, A::frame_pointer, on_stack(i * 8), A::r4);
  code.load(BPF_H, A::r4, A::data, in_frame(4));
  code.store(BPF_DW, A::frame_pointer, on_stack(offsetof(FragmentKey, number)), A::r4);
}

void give_map_and_key(Assembler& code, int map) {
  using A = Assembler;
  code.set_map(A::r1, map);
  code.copy(A::r2, A::frame_pointer);
  code.change(BPF_ADD, A::r2, key_at);
}

// A fragment that is the first if r3 is 0.
void assemble_fragment(Assembler& code, uint16_t port, int fragmented) {
  using A = Assembler;
  code.mark(CodeMark::fragment);
  code.go_if(BPF_JNE, A::r3, 0, CodeMark::later);
  code.need(A::udp, udp_head);
  code.load(BPF_H, A::udp, A::udp, 2);
  give_map_and_key(code, fragmented);
  code.go_if(BPF_JNE, A::udp, htons(port), CodeMark::another);
  // The value, of which nobody reads anything, is the beginning of the key.
  code.copy(A::r3, A::r2);
  code.set(A::r4, BPF_ANY);
  code.call(BPF_FUNC_map_update_elem);
  code.go(CodeMark::hand_over);
  code.mark(CodeMark::another);
  // A number that may have been one for the port before.
  code.call(BPF_FUNC_map_delete_elem);
  code.go(CodeMark::pass);
  code.mark(CodeMark::later);
  give_map_and_key(code, fragmented);
  code.call(BPF_FUNC_map_lookup_elem);
  code.go_if(BPF_JEQ, A::r0, 0, CodeMark::pass);
  code.go(CodeMark::hand_over);
}

std::vector<bpf_insn> assemble_program(uint16_t port, int sockets, int fragmented) {
  using A = Assembler;
  A code;
  code.copy(A::context, A::r1);
  code.load(BPF_W, A::data, A::context, offsetof(xdp_md, data));
  code.load(BPF_W, A::end, A::context, offsetof(xdp_md, data_end));
  code.need(A::data, ethernet_head + v4_head);
  code.load(BPF_H, A::r3, A::data, 12);
  code.go_if(BPF_JEQ, A::r3, htons(ETH_P_IP), CodeMark::v4);
  code.go_if(BPF_JNE, A::r3, htons(ETH_P_IPV6), CodeMark::pass);
  assemble_v6(code);
  assemble_v4(code);
  assemble_fragment(code, port, fragmented);
  code.mark(CodeMark::port);
  code.need(A::udp, udp_head);
  code.load(BPF_H, A::r3, A::udp, 2);
  code.go_if(BPF_JNE, A::r3, htons(port), CodeMark::pass);
  code.mark(CodeMark::hand_over);
  code.set_map(A::r1, sockets);
  code.load(BPF_W, A::r2, A::context, offsetof(xdp_md, rx_queue_index));
  code.set(A::r3, XDP_PASS);  // without a socket
  code.call(BPF_FUNC_redirect_map);
  code.leave();
  code.mark(CodeMark::pass);
  code.set(A::r0, XDP_PASS);
  code.leave();
  return code.finish();
}

int load_program(const std::vector<bpf_insn>& code) {
  static constexpr char license[] = "Apache-2.0";
  bpf_attr program{};
  program.prog_type = BPF_PROG_TYPE_XDP;
  program.insns = address_of(code.data());
  program.insn_cnt = static_cast<uint32_t>(code.size());
  program.license = address_of(license);
  const long loaded = call_bpf(BPF_PROG_LOAD, program);
  if (loaded < 0) fail_by_errno("an XDP program");
  return static_cast<int>(loaded);
}

}  // namespace

XdpProgram::XdpProgram(uint16_t port, uint32_t queues)
    : sockets_(make_map(BPF_MAP_TYPE_XSKMAP, sizeof(uint32_t), sizeof(uint32_t), queues)),
      fragmented_(
          make_map(BPF_MAP_TYPE_LRU_HASH, sizeof(FragmentKey), sizeof(uint32_t), most_fragmented)),
      program_(load_program(assemble_program(port, sockets_.number(), fragmented_.number()))) {}

void XdpProgram::attach(const std::string& interface) {
  const int index = interface_index(interface);
  int link = link_to(index, XDP_FLAGS_DRV_MODE);
  in_driver_ = link >= 0;
  // Not where the driver has another one.
  if (!in_driver_ && errno != EBUSY && errno != EEXIST) link = link_to(index, XDP_FLAGS_SKB_MODE);
  if (link < 0) fail_by_errno("an XDP program on " + interface);
  link_ = Descriptor(link);
}

int XdpProgram::link_to(int interface, uint32_t mode) const {
  bpf_attr link{};
  link.link_create.prog_fd = static_cast<uint32_t>(program_.number());
  link.link_create.target_ifindex = static_cast<uint32_t>(interface);
  link.link_create.attach_type = BPF_XDP;
  link.link_create.flags = mode;
  return static_cast<int>(call_bpf(BPF_LINK_CREATE, link));
}

void XdpProgram::add(uint32_t queue, int socket) {
  bpf_attr entry{};
  entry.map_fd = static_cast<uint32_t>(sockets_.number());
  entry.key = address_of(&queue);
  entry.value = address_of(&socket);
  if (call_bpf(BPF_MAP_UPDATE_ELEM, entry) != 0) fail_by_errno("queue " + std::to_string(queue));
}

}  // namespace isotherm::net
