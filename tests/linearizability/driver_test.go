package main

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A server small enough to be seen through, right or with a fault put in: the whole chain of
// clients, history and checker must tell them apart.
type tinyServer struct {
	mutex    sync.Mutex
	values   map[string]string
	loseSums bool // INCR reads and writes in two steps
	stale    bool // every 200th GET answers with the value before
	before   map[string]string
	gets     int
}

func (s *tinyServer) load(key string) (string, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	value, found := s.values[key]
	return value, found
}

func (s *tinyServer) store(key, value string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.before[key] = s.values[key]
	s.values[key] = value
}

func (s *tinyServer) get(key string) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.gets++
	value, found := s.values[key]
	if old := s.before[key]; s.stale && s.gets%200 == 0 && old != "" {
		value, found = old, true
	}
	if !found {
		return "$-1\r\n"
	}
	return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
}

func (s *tinyServer) increment(key, delta string) string {
	step, _ := parseInt(delta)
	add := func(value string) int64 {
		number, _ := parseInt(value)
		return number + step
	}
	var number int64
	if s.loseSums {
		value, _ := s.load(key)
		runtime.Gosched()
		number = add(value)
		s.store(key, strconv.FormatInt(number, 10))
	} else {
		s.mutex.Lock()
		number = add(s.values[key])
		s.values[key] = strconv.FormatInt(number, 10)
		s.mutex.Unlock()
	}
	return fmt.Sprintf(":%d\r\n", number)
}

func (s *tinyServer) answer(words []string) string {
	switch words[0] {
	case "FLUSHALL":
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.values, s.before = map[string]string{}, map[string]string{}
		return "+OK\r\n"
	case "SET":
		s.store(words[1], words[2])
		return "+OK\r\n"
	case "GET":
		return s.get(words[1])
	case "INCR":
		return s.increment(words[1], "1")
	case "INCRBY":
		return s.increment(words[1], words[2])
	case "DEL":
		s.mutex.Lock()
		defer s.mutex.Unlock()
		_, found := s.values[words[1]]
		delete(s.values, words[1])
		if found {
			return ":1\r\n"
		}
		return ":0\r\n"
	}
	return "-ERR unknown command\r\n"
}

func (s *tinyServer) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		head, err := readResp(reader)
		if err != nil {
			return
		}
		n, _ := strconv.Atoi(head.text)
		var words []string
		for i := 0; i < n; i++ {
			word, err := readResp(reader)
			if err != nil {
				return
			}
			words = append(words, word.text)
		}
		if _, err := conn.Write([]byte(s.answer(words))); err != nil {
			return
		}
	}
}

func (s *tinyServer) start(t *testing.T) string {
	t.Helper()
	s.values, s.before = map[string]string{}, map[string]string{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return listener.Addr().String()
}

func verdict(t *testing.T, s *tinyServer) int {
	t.Setenv("TMPDIR", t.TempDir())
	return run(settings{target: target{resp: s.start(t)}, histories: 2, seed: 1, profile: "counters",
		clients: 8, keys: 4, fill: 4000, slack: 50 * time.Millisecond})
}

func TestPassesARightServer(t *testing.T) {
	if got := verdict(t, &tinyServer{}); got != 0 {
		t.Errorf("exit status %d", got)
	}
}

func TestCatchesLostSums(t *testing.T) {
	if got := verdict(t, &tinyServer{loseSums: true}); got != 1 {
		t.Errorf("exit status %d", got)
	}
}

func TestCatchesStaleReads(t *testing.T) {
	if got := verdict(t, &tinyServer{stale: true}); got != 1 {
		t.Errorf("exit status %d", got)
	}
}
