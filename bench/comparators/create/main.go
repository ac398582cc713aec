// Command create makes pods on an API server, at a steady pace or as fast as so many clients can, and prints one JSON
// object with what it measured. It knows nothing of webhooks but the label that they are expected to write.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

type settings struct {
	url, token, ca, bodies, label string
	clients                       int
	rate                          float64
	warmUp, duration              time.Duration
}

type result struct {
	Creations  int     `json:"creations"`
	Seconds    float64 `json:"seconds"`
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
}

// creator sends pods; all of its clients share one connection, as those of a Kubernetes client do.
type creator struct {
	settings
	client *http.Client
	pods   [][]byte
	sent   atomic.Int64
}

func main() {
	made, err := prepare(parse())
	if err == nil {
		_, err = made.run(made.warmUp)
	}
	var measured result
	if err == nil {
		measured, err = made.measure()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parse() settings {
	var set settings
	flag.StringVar(&set.url, "url", "", "where to post pods to")
	flag.StringVar(&set.token, "token", "", "bearer token")
	flag.StringVar(&set.ca, "ca", "", "PEM file with the certificate of the API server")
	flag.StringVar(&set.bodies, "bodies", "", "folder of the pods, one per file")
	flag.StringVar(&set.label, "label", "", "label that every created pod must have; empty for none")
	flag.IntVar(&set.clients, "clients", 16, "creations at a time, if there is no rate")
	flag.Float64Var(&set.rate, "rate", 0, "creations begun per second, whether or not the earlier ones are done")
	flag.DurationVar(&set.warmUp, "warm-up", 300*time.Millisecond, "time that is not measured")
	flag.DurationVar(&set.duration, "duration", 2*time.Second, "time that is measured")
	flag.Parse()
	return set
}

func prepare(set settings) (*creator, error) {
	files, err := filepath.Glob(filepath.Join(set.bodies, "*.json"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: holds no pods", set.bodies))
	}
	pem, err := os.ReadFile(set.ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: holds no certificate", set.ca)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	made := &creator{settings: set, client: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
	for _, file := range files {
		pod, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		made.pods = append(made.pods, pod)
	}
	return made, nil
}

func (c *creator) measure() (result, error) {
	started := time.Now()
	latencies, err := c.run(c.duration)
	if err == nil && len(latencies) == 0 {
		err = errors.New("no pod was created in time")
	}
	if err != nil {
		return result{}, err
	}
	return result{
		Creations:  len(latencies),
		Seconds:    time.Since(started).Seconds(),
		P50Seconds: quantile(latencies, 0.50),
		P99Seconds: quantile(latencies, 0.99),
	}, nil
}

// run creates pods until the time is over, and gives all latencies, sorted.
func (c *creator) run(duration time.Duration) ([]time.Duration, error) {
	if c.rate > 0 {
		return c.runPaced(duration)
	}
	var gathered gathered
	until := time.Now().Add(duration)
	for range c.clients {
		gathered.group.Go(func() {
			for time.Now().Before(until) && gathered.add(c.create(time.Now())) {
			}
		})
	}
	return gathered.wait()
}

// runPaced measures each creation from when it was due, so that a stall is seen in all that wait for it.
func (c *creator) runPaced(duration time.Duration) ([]time.Duration, error) {
	var gathered gathered
	gap, begin := time.Duration(float64(time.Second)/c.rate), time.Now()
	for due := begin; due.Before(begin.Add(duration)); due = due.Add(gap) {
		time.Sleep(time.Until(due))
		gathered.group.Go(func() { gathered.add(c.create(due)) })
	}
	return gathered.wait()
}

func (c *creator) create(begun time.Time) (time.Duration, error) {
	pod := c.pods[int(c.sent.Add(1))%len(c.pods)]
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(pod))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return 0, err
	}
	content, err := io.ReadAll(response.Body)
	latency := time.Since(begun)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusCreated {
		return 0, fmt.Errorf("answered %s: %.500s", response.Status, content)
	}
	if c.label != "" && !bytes.Contains(content, []byte(`"`+c.label+`":`)) {
		return 0, fmt.Errorf("a pod was created without %s", c.label)
	}
	return latency, nil
}

// gathered collects what concurrent creations came to.
type gathered struct {
	group     sync.WaitGroup
	lock      sync.Mutex
	latencies []time.Duration
	problem   error
}

// add takes one creation, and tells whether all is well so far.
func (g *gathered) add(latency time.Duration, err error) bool {
	g.lock.Lock()
	defer g.lock.Unlock()
	if err != nil {
		g.problem = err
	}
	g.latencies = append(g.latencies, latency)
	return g.problem == nil
}

func (g *gathered) wait() ([]time.Duration, error) {
	g.group.Wait()
	slices.Sort(g.latencies)
	return g.latencies, g.problem
}

func quantile(sorted []time.Duration, q float64) float64 {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Seconds()
}
