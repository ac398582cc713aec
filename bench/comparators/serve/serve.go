// Package serve reads the flags that both comparators share. It knows nothing of what they serve.
package serve

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"gpu-tenure.io/bench/comparators/rules"
)

// Flags are the address, the folder with tls.crt and tls.key, and the policy.
type Flags struct {
	Host    string
	Port    int
	CertDir string
	Policy  *rules.Policy
}

// Parse reads the command line and ends the process if it or the policy cannot be read.
func Parse() Flags {
	flags := Flags{Policy: &rules.Policy{}}
	var policyFile string
	flag.StringVar(&flags.Host, "host", "127.0.0.1", "address to listen on")
	flag.IntVar(&flags.Port, "port", 0, "port to listen on")
	flag.StringVar(&flags.CertDir, "cert-dir", "", "folder with tls.crt and tls.key")
	flag.StringVar(&policyFile, "policy", "", "JSON file with the policy")
	flag.Parse()
	content, err := os.ReadFile(policyFile)
	if err == nil {
		err = json.Unmarshal(content, flags.Policy)
	}
	if err != nil {
		Fail(err)
	}
	return flags
}

// Fail says why and ends the process.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
