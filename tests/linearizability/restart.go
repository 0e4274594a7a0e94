package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Histories of a server that is killed in the middle of each burst and started again.
//
// What was answered has taken effect. What was not answered when the server was killed has taken
// effect before it was, or never: its output is `unanswered`, and its return is the moment at which
// the server is there again.

// restarting is a profile for few clients, so that few operations are open and judging stays short,
// and without what a restart changes by itself (versions) or by time (expiry).
func restarting() profile {
	return profile{name: "restart", bursts: 6, perBurst: 1 << 20, hotKeys: 4, depth: 2,
		resp: []choice{{25, get}, {6, getMany}, {14, set}, {8, setConditional}, {8, setGet}, {6, setMany},
			{6, del}, {4, getDelete}, {14, increment}, {6, appendText}, {3, setNumber}}}
}

// A killable is a server of our own, which comes back to a port that the kernel picks: somebody else
// may have the one it had.
type killable struct {
	command []string
	address string
	process *exec.Cmd
}

// newKillable takes DIR in the command for the folder of the history.
func newKillable(command []string, folder string) *killable {
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "DIR", folder)
	}
	return &killable{command: append(command, "--port", "0", "--memcached-port", "off", "--threads", "2",
		"--appendonly", "yes", "--appendfsync", "always", "--dir", folder)}
}

// start returns when the server listens.
func (k *killable) start() error {
	k.process = exec.Command(k.command[0], k.command[1:]...)
	output, err := k.process.StdoutPipe()
	if err != nil {
		return err
	}
	k.process.Stderr = k.process.Stdout
	if err := k.process.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	var said strings.Builder
	for lines.Scan() {
		if _, address, found := strings.Cut(lines.Text(), " listening resp "); found {
			k.address = address
		}
		if strings.Contains(lines.Text(), " ready, ") {
			go func() {
				for lines.Scan() {
				}
			}()
			return nil
		}
		said.WriteString(lines.Text() + "\n")
	}
	return fmt.Errorf("the server did not start: %w\n%s", k.process.Wait(), said.String())
}

func (k *killable) kill() {
	if k.process != nil && k.process.Process != nil {
		k.process.Process.Kill()
		k.process.Wait()
	}
}

// rewrite has the journal of a server written anew, again and again, until it is killed: of a store with a
// tree that moves all that was changed into its files.
func rewrite(address string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer conn.Close()
	replies := bufio.NewReader(conn)
	for err == nil {
		if _, err = conn.Write([]byte("BGREWRITEAOF\r\n")); err == nil {
			_, err = replies.ReadString('\n')
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// runRestarting makes a history with a kill in each burst but the last, which only looks.
func (p plan) runRestarting(k *killable, random *rand.Rand) ([]porcupine.Operation, error) {
	if err := k.start(); err != nil {
		return nil, err
	}
	defer k.kill()
	participants, err := p.open(target{resp: k.address})
	if err != nil {
		return nil, err
	}
	for burst := 0; burst < p.profile.bursts; burst++ {
		process := k.process.Process
		go rewrite(k.address)
		time.AfterFunc(time.Duration(20+random.Intn(60))*time.Millisecond, func() { process.Kill() })
		err := together(participants, func(s *participant) error { return s.burst(burst) })
		if !isCutOff(err) {
			return nil, err
		}
		k.process.Wait()
		if err := k.start(); err != nil {
			return nil, err
		}
		for _, s := range participants {
			if err := s.reopen(k.address); err != nil {
				return nil, err
			}
		}
	}
	err = together(participants[:1], func(s *participant) error { return s.lookAtAll() })
	var history []porcupine.Operation
	for _, s := range participants {
		s.client.conn.Close()
		history = append(history, s.history...)
	}
	return history, err
}

func isCutOff(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// reopen records what was not answered, and has a new connection.
func (s *participant) reopen(address string) error {
	now := time.Since(s.start).Nanoseconds()
	for _, q := range s.unanswered {
		outs := make([]*output, len(q.inputs))
		for i := range outs {
			outs[i] = &output{code: unanswered}
		}
		s.record(q, outs, s.called, now)
	}
	s.unanswered = nil
	s.client.conn.Close()
	c, err := dial(s.client.codec, address)
	s.client = c
	return err
}

func (s *participant) lookAtAll() error {
	for key := 0; key < s.plan.keys; key++ {
		if err := s.pipeline([]*request{get(s.worker, key)}); err != nil {
			return err
		}
	}
	return nil
}

// mayHappen is what an operation that was not answered makes of a key if it took effect.
func (s state) mayHappen(in *input) state {
	here := in.condition == always || (in.condition == ifPresent) == s.present
	switch {
	case in.kind == opDelete || in.kind == opGetDelete || in.kind == opFlush:
		s.erase()
	case in.kind == opSet && here:
		s.write(in.value)
	case in.kind == opAppend && here:
		s.write(s.value + in.value)
	case in.kind == opIncrement && here:
		number, err := int64(0), error(nil)
		if s.present {
			number, err = parseInt(s.value)
		}
		if err == nil {
			s.write(fmt.Sprint(number + in.delta))
		}
	}
	return s
}

// restartModel is the model with operations that took effect or did not.
func (r rules) restartModel() porcupine.Model {
	model := r.deterministicModel()
	forking := porcupine.NondeterministicModel{
		Partition: byKey,
		Init:      func() []interface{} { return []interface{}{state{}} },
		Step: func(before, in, out interface{}) []interface{} {
			if out.(*output).code != unanswered {
				if ok, after := model.Step(before, in, out); ok {
					return []interface{}{after}
				}
				return nil
			}
			i, s := in.(*input), before.(state)
			if s.next[i.client] != uint32(i.sequence) {
				return nil
			}
			s.next[i.client]++
			return []interface{}{s, s.mayHappen(i)}
		},
		Equal:             model.Equal,
		DescribeOperation: model.DescribeOperation,
		DescribeState:     model.DescribeState,
	}
	return forking.ToModel()
}

// makeRestarting makes and judges one history in a folder of its own.
func makeRestarting(p plan, s settings, random *rand.Rand) (int, witness) {
	began := time.Now()
	folder, err := os.MkdirTemp("", "restart-*")
	var history []porcupine.Operation
	if err == nil {
		defer os.RemoveAll(folder)
		history, err = p.runRestarting(newKillable(strings.Fields(s.restart), folder), random)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "history %d (%s): %v\n", p.number, p.profile.name, err)
		return 2, witness{}
	}
	return judgeOne(p, rules{slack: s.slack, restarts: true}, history, began)
}

// countAnswers is the witness of a history of which no single order was found.
func countAnswers(part []porcupine.Operation) witness {
	w := witness{operations: len(part)}
	for _, operation := range part {
		if operation.Output.(*output).code == unanswered {
			w.unanswered++
		}
	}
	return w
}
