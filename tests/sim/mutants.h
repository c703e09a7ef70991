// SPDX-License-Identifier: MIT
// tests/sim/mutants.h — machines that get one thing wrong, each a bug a protocol could have: one list.
//
// A Mutant is a SimMachine whose functions can be overridden, so the protocol itself stays as it is; SpoiltMachine is
// what protocols are compiled for, once, and hands everything to the mutant that is planted.  In every operator here
// the first world.size() signals are `ready`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/sim/sim_machine.h"
#include "tests/support/op_table.h"

namespace mk::test {

class Mutant : public sim::SimMachine {
 public:
  using SimMachine::SimMachine;
  virtual ~Mutant() = default;

  virtual bool wait(uint32_t signal, uint64_t wanted, int64_t subject) {
    return SimMachine::wait(signal, wanted, subject);
  }
  virtual void add(const Signal& signal, uint64_t amount) { SimMachine::add(signal, amount); }
  virtual void copy(const Place& to, const Place& from, uint64_t bytes) { SimMachine::copy(to, from, bytes); }
  virtual void store(const Place& to, uint64_t bytes) { SimMachine::store(to, bytes); }
  virtual void load(const Place& from, uint64_t bytes) { SimMachine::load(from, bytes); }
  virtual bool put(const Put& put, int64_t subject) { return SimMachine::put(put, subject); }
  virtual bool settle() { return SimMachine::settle(); }

 protected:
  bool is_ready(uint32_t signal) const { return signal < static_cast<uint32_t>(world().size()); }
  std::string_view role() { return sim().core().spec.names.role(worker().post.role); }
  bool passes_on(uint32_t signal) { return role() == "intra" && !is_ready(signal); }
};

using MutantMaker = std::function<std::unique_ptr<Mutant>(sim::SimWorld&, sim::Worker&)>;

class SpoiltMachine {
 public:
  static inline MutantMaker planted;

  SpoiltMachine(sim::SimWorld& world, sim::Worker& worker) : m_(planted(world, worker)) {}

  const WorldShape& world() const { return m_->world(); }
  int rank() const { return m_->rank(); }
  uint64_t epoch() const { return m_->epoch(); }
  bool wait(uint32_t signal, uint64_t wanted, int64_t subject) { return m_->wait(signal, wanted, subject); }
  bool wait_some(uint32_t signal, uint64_t wanted, int64_t subject) { return m_->wait_some(signal, wanted, subject); }
  bool wait_turn(uint32_t signal, uint64_t turn, int64_t subject) { return m_->wait_turn(signal, turn, subject); }
  void pass_turn(uint32_t signal) { m_->pass_turn(signal); }
  bool wait_stamp(uint32_t signal, uint64_t stamp, int64_t subject) { return m_->wait_stamp(signal, stamp, subject); }
  void stamp(const Signal& signal, uint64_t stamp) { m_->stamp(signal, stamp); }
  uint32_t read(const Place& from) { return m_->read(from); }
  ValueList read_list(const Place& from, int count, uint64_t stride) { return m_->read_list(from, count, stride); }
  void write(const Place& to, uint32_t value) { m_->write(to, value); }
  void add(const Signal& signal, uint64_t amount) { m_->add(signal, amount); }
  void copy(const Place& to, const Place& from, uint64_t bytes) { m_->copy(to, from, bytes); }
  void store(const Place& to, uint64_t bytes) { m_->store(to, bytes); }
  void load(const Place& from, uint64_t bytes) { m_->load(from, bytes); }
  bool put(const Put& put, int64_t subject) { return m_->put(put, subject); }
  bool settle() { return m_->settle(); }
  void refuse(uint32_t reason, int64_t subject, uint64_t seen, uint64_t allowed) {
    m_->refuse(reason, subject, seen, allowed);
  }
  void note(const Event& event) { m_->note(event); }
  void compute(const sim::TileWork& work, int64_t tile) { m_->compute(work, tile); }
  void write_result(uint64_t bytes) { m_->write_result(bytes); }
  void sum(uint64_t moved) { m_->sum(moved); }

 private:
  std::unique_ptr<Mutant> m_;
};

static_assert(Machine<SpoiltMachine>);

class OpRun;

// A bug, the operators that can have it, and the kinds allowed for the first complaint of it.
struct Bug {
  std::string name;
  std::string reported_as;
  std::vector<Op> ops;
  std::function<void(OpRun&)> run;
};

std::span<const Bug> bugs();

}  // namespace mk::test
