// Command load sends AdmissionReviews in a closed loop over kept TLS connections, checks every answer, and prints one
// JSON object with what it measured. It knows nothing of the server but its address and process id.
//
// It writes requests that are prepared beforehand, with only the uid put in, so that it needs a small part of the time of
// any server that decodes them. Its own share of a core is in the output ("loadCPUSeconds").
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// What stands in the bodies for what differs from review to review: the uid (as such, and in names and labels), and
	// in some bodies a duration, from half an hour to a day, that nobody asked for before.
	uidPlaceholder      = "00000000-0000-4000-8000-000000000000"
	durationPlaceholder = "77777s"
	durationLeast       = 1800
	durationMost        = 86400

	ticksPerSecond = 100 // USER_HZ of Linux, a constant of its ABI

	// The API server's client fills a buffer of this size with the head and the beginning of the body, and writes the
	// rest of the body as a whole.
	firstWrite = 4096
)

type settings struct {
	address, path, ca, bodies string
	connections, pid          int
	first                     uint64
	warmUp, duration          time.Duration
}

type result struct {
	Reviews          int     `json:"reviews"`
	Seconds          float64 `json:"seconds"`
	ServerCPUSeconds float64 `json:"serverCPUSeconds"`
	LoadCPUSeconds   float64 `json:"loadCPUSeconds"`
	P50Seconds       float64 `json:"p50Seconds"`
	P99Seconds       float64 `json:"p99Seconds"`
}

// message is one prepared request: head and body, and where the placeholders lie in it.
type message struct {
	content   []byte
	uids      []int
	durations []int
}

type answer struct {
	Response struct {
		UID       string `json:"uid"`
		Allowed   bool   `json:"allowed"`
		Patch     []byte `json:"patch"`
		PatchType string `json:"patchType"`
	} `json:"response"`
}

var lastNumber atomic.Uint64

func main() {
	set := parse()
	lastNumber.Store(set.first)
	messages, err := prepare(set)
	if err != nil {
		fail(err)
	}
	connections, err := connect(set)
	if err != nil {
		fail(err)
	}
	if _, err = run(connections, messages, set.warmUp); err != nil {
		fail(err)
	}
	measured, err := measure(set, connections, messages)
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(measured); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

func parse() settings {
	var set settings
	flag.StringVar(&set.address, "address", "", "host:port of the server")
	flag.StringVar(&set.path, "path", "/mutate?timeout=2s", "path and query to post to")
	flag.StringVar(&set.ca, "ca", "", "PEM file with the CA of the server")
	flag.StringVar(&set.bodies, "bodies", "", "folder of the reviews, one per file")
	flag.IntVar(&set.connections, "connections", 8, "connections, each with one request at a time")
	flag.IntVar(&set.pid, "pid", 0, "process id of the server, to read its CPU time")
	flag.Uint64Var(&set.first, "first", 0, "number of the first review; numbers make uids and durations")
	flag.DurationVar(&set.warmUp, "warm-up", 200*time.Millisecond, "time that is not measured")
	flag.DurationVar(&set.duration, "duration", 2*time.Second, "time that is measured")
	flag.Parse()
	return set
}

func prepare(set settings) ([]message, error) {
	files, err := filepath.Glob(filepath.Join(set.bodies, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: holds no reviews", set.bodies))
	}
	messages := make([]message, 0, len(files))
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		// The headers that the API server sends.
		head := "POST " + set.path + " HTTP/1.1\r\nHost: " + set.address +
			"\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: " + strconv.Itoa(len(body)) +
			"\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
		one := message{content: append([]byte(head), body...)}
		if len(one.content) <= firstWrite {
			return nil, fmt.Errorf("%s: is shorter than %d bytes", file, firstWrite)
		}
		one.durations = offsetsOf(one.content, durationPlaceholder)
		if one.uids = offsetsOf(one.content, uidPlaceholder); len(one.uids) == 0 {
			return nil, fmt.Errorf("%s: has no uid to replace", file)
		}
		messages = append(messages, one)
	}
	return messages, nil
}

func offsetsOf(content []byte, text string) []int {
	var offsets []int
	for from := 0; ; from += len(text) {
		found := bytes.Index(content[from:], []byte(text))
		if found < 0 {
			return offsets
		}
		from += found
		offsets = append(offsets, from)
	}
}

func connect(set settings) ([]net.Conn, error) {
	pem, err := os.ReadFile(set.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: holds no certificate", set.ca)
	}
	config := &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	connections := make([]net.Conn, set.connections)
	for i := range connections {
		if connections[i], err = tls.Dial("tcp", set.address, config); err != nil {
			return nil, err
		}
	}
	return connections, nil
}

func measure(set settings, connections []net.Conn, messages []message) (result, error) {
	serverBefore, err := cpuOf(set.pid)
	if err != nil {
		return result{}, err
	}
	loadBefore, started := ownCPU(), time.Now()
	latencies, err := run(connections, messages, set.duration)
	if err == nil && len(latencies) == 0 {
		err = errors.New("no review was answered in time")
	}
	if err != nil {
		return result{}, err
	}
	seconds := time.Since(started).Seconds()
	serverAfter, err := cpuOf(set.pid)
	if err != nil {
		return result{}, err
	}
	return result{
		Reviews:          len(latencies),
		Seconds:          seconds,
		ServerCPUSeconds: serverAfter - serverBefore,
		LoadCPUSeconds:   ownCPU() - loadBefore,
		P50Seconds:       quantile(latencies, 0.50),
		P99Seconds:       quantile(latencies, 0.99),
	}, nil
}

// run keeps every connection busy until the time is over, and gives all latencies, sorted.
func run(connections []net.Conn, messages []message, duration time.Duration) ([]time.Duration, error) {
	var group sync.WaitGroup
	latencies := make([][]time.Duration, len(connections))
	problems := make([]error, len(connections))
	until := time.Now().Add(duration)
	for i, connection := range connections {
		group.Go(func() { latencies[i], problems[i] = exchangeUntil(until, connection, own(messages), i) })
	}
	group.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return all, nil
}

// own copies the messages, because each connection writes its uids into them.
func own(messages []message) []message {
	copies := slices.Clone(messages)
	for i := range copies {
		copies[i].content = slices.Clone(copies[i].content)
	}
	return copies
}

func exchangeUntil(until time.Time, connection net.Conn, messages []message, first int) ([]time.Duration, error) {
	reader := bufio.NewReaderSize(connection, 16<<10)
	var latencies []time.Duration
	for i := first; time.Now().Before(until); i++ {
		latency, err := exchange(connection, reader, messages[i%len(messages)])
		if err != nil {
			return nil, err
		}
		latencies = append(latencies, latency)
	}
	return latencies, nil
}

// renew makes the message unlike all others, and gives its uid.
func (m message) renew(number uint64) string {
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012x", number)
	for _, offset := range m.uids {
		copy(m.content[offset:], uid)
	}
	duration := fmt.Sprintf("%05ds", durationLeast+number%(durationMost-durationLeast+1))
	for _, offset := range m.durations {
		copy(m.content[offset:], duration)
	}
	return uid
}

func exchange(connection net.Conn, reader *bufio.Reader, sent message) (time.Duration, error) {
	uid := sent.renew(lastNumber.Add(1))
	started := time.Now()
	if err := connection.SetDeadline(started.Add(30 * time.Second)); err != nil {
		return 0, err
	}
	for _, part := range [][]byte{sent.content[:firstWrite], sent.content[firstWrite:]} {
		if _, err := connection.Write(part); err != nil {
			return 0, err
		}
	}
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return 0, err
	}
	content, err := io.ReadAll(response.Body)
	latency := time.Since(started)
	if err != nil {
		return 0, err
	}
	return latency, check(response, content, uid)
}

func check(response *http.Response, content []byte, uid string) error {
	var got answer
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s: %.300s", response.Status, content)
	}
	if err := json.Unmarshal(content, &got); err != nil {
		return fmt.Errorf("the answer is no review: %w", err)
	}
	review := got.Response
	if review.UID != uid || !review.Allowed || review.PatchType != "JSONPatch" || !bytes.HasPrefix(review.Patch, []byte("[{")) {
		return fmt.Errorf("review %s: wrong answer: %.300s", uid, content)
	}
	return nil
}

func quantile(sorted []time.Duration, q float64) float64 {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Seconds()
}

// cpuOf gives the user and system time of a process in seconds.
func cpuOf(pid int) (float64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold blanks; utime and stime are the 12th and 13th fields after it.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	user, errUser := strconv.ParseFloat(fields[11], 64)
	system, errSystem := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond, errors.Join(errUser, errSystem)
}

func ownCPU() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
