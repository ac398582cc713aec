// Package rules is the decision that both comparators share: which labels, annotations and deadline a GPU pod gets. It
// knows nothing of HTTP, JSON or Kubernetes libraries. It holds only what the benchmark's pods need (no selection of
// policies, no namespaces, no validation of the result), so that the comparators do less work than the product, never more.
package rules

import (
	"slices"
	"strconv"
	"strings"
)

// Prefix begins every key that is written.
const Prefix = "gpu-tenure.io/"

// Keys that are written or read.
const (
	Deadline        = Prefix + "deadline"
	DeadlineSeconds = Prefix + "deadline-seconds"
	Asked           = Prefix + "asked"
	IdleAfter       = Prefix + "idle-after"
	RequestedBy     = Prefix + "requested-by"
)

// Terms are the idle terms of one class, as label values.
type Terms struct {
	Action      string `json:"action"`
	After       string `json:"after"`
	Utilization string `json:"utilization"`
	Statistic   string `json:"statistic"`
	Grace       string `json:"grace"`
	WarmUp      string `json:"warmUp"`
}

// Policy is the one policy of the benchmark.
type Policy struct {
	Name            string           `json:"name"`
	Classes         map[string]Terms `json:"classes"`
	AfterMin        string           `json:"afterMin"`
	AfterMax        string           `json:"afterMax"`
	DeadlineDefault int64            `json:"deadlineDefault"`
	DeadlineMax     int64            `json:"deadlineMax"`
	Trusted         []string         `json:"trusted"`
}

// Facts are what the decision reads of a pod and of its creator.
type Facts struct {
	Labels          map[string]string
	Annotations     map[string]string
	Controller      string // group and kind, such as `apps/ReplicaSet`; empty for none
	RestartPolicy   string
	DeadlineSeconds *int64
	Username        string
}

// Outcome is what is to be written; Seconds is nil where the field stays as it is.
type Outcome struct {
	Labels      map[string]string
	Annotations map[string]string
	Seconds     *int64
}

// JobOutcome is what is to be written on a Job and on the template of its pods.
type JobOutcome struct {
	Annotations         map[string]string
	TemplateAnnotations map[string]string
	Seconds             *int64
}

// DecideJob gives what a Job of GPU pods gets under a policy.
func DecideJob(policy *Policy, username string, own *int64, template map[string]string) JobOutcome {
	note, effective := "kept", own
	outcome := JobOutcome{}
	switch {
	case own == nil:
		note, effective = "injected", &policy.DeadlineDefault
		outcome.Seconds = effective
	case *own > policy.DeadlineMax:
		note, effective = "lowered", &policy.DeadlineMax
		outcome.Seconds = effective
	}
	outcome.Annotations = map[string]string{Deadline: note}
	outcome.TemplateAnnotations = map[string]string{
		Deadline:        "job",
		DeadlineSeconds: strconv.FormatInt(*effective, 10),
	}
	requester(policy, username, template, outcome.TemplateAnnotations)
	return outcome
}

// requester notes who asked: what a trusted controller makes keeps what its template says.
func requester(policy *Policy, username string, existing, outcome map[string]string) {
	if !slices.Contains(policy.Trusted, username) {
		outcome[RequestedBy] = username
	} else if value, present := existing[RequestedBy]; present {
		outcome[RequestedBy] = value
	}
}

// IsGPU says whether a resource name is a GPU, one of its slices or a share of it.
func IsGPU(name string) bool {
	switch name {
	case "nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu":
		return true
	}
	return strings.HasPrefix(name, "nvidia.com/mig-")
}

// Decide gives what a GPU pod gets under a policy.
func Decide(policy *Policy, facts Facts) Outcome {
	controller := facts.Controller
	if controller != "" && !slices.Contains(policy.Trusted, facts.Username) {
		controller = "" // a reference that its creator may have forged
	}
	class := classOf(controller, facts)
	terms := policy.Classes[class]
	after, asked := admittedAfter(policy, terms.After, facts.Labels[IdleAfter])
	outcome := Outcome{
		Labels: map[string]string{
			Prefix + "policy":           policy.Name,
			Prefix + "class":            class,
			Prefix + "idle-action":      terms.Action,
			IdleAfter:                   after,
			Prefix + "idle-utilization": terms.Utilization,
			Prefix + "idle-statistic":   terms.Statistic,
			Prefix + "idle-grace":       terms.Grace,
			Prefix + "idle-warm-up":     terms.WarmUp,
		},
		Annotations: map[string]string{},
	}
	if asked {
		outcome.Annotations[Asked] = "idle-after"
	}
	requester(policy, facts.Username, facts.Annotations, outcome.Annotations)
	decideDeadline(policy, controller, class, facts, &outcome)
	return outcome
}

func classOf(controller string, facts Facts) string {
	switch {
	case controller == "batch/Job":
		return "batch"
	case controller == "apps/StatefulSet" && facts.Labels["notebook-name"] != "":
		return "interactive"
	case controller != "":
		return "serving"
	case facts.RestartPolicy == "Never" || facts.RestartPolicy == "OnFailure":
		return "batch"
	}
	return "serving"
}

func admittedAfter(policy *Policy, given, asked string) (string, bool) {
	seconds := Seconds(asked)
	switch {
	case seconds == 0:
		return given, false
	case seconds < Seconds(policy.AfterMin):
		return policy.AfterMin, policy.AfterMin != given
	case seconds > Seconds(policy.AfterMax):
		return policy.AfterMax, policy.AfterMax != given
	}
	return asked, asked != given
}

func decideDeadline(policy *Policy, controller, class string, facts Facts, outcome *Outcome) {
	job := controller == "batch/Job"
	if job && facts.Annotations[Deadline] == "job" {
		return // the Job's template has marked the pod with all that there is to say
	}
	note, effective := "kept", facts.DeadlineSeconds
	switch own := facts.DeadlineSeconds; {
	case own == nil && job:
		note = "none: JobUnmarked"
	case own == nil && controller != "":
		note = "none: ControllerOwned"
	case own == nil && class != "batch":
		note = "none: ClassNotBatch"
	case own == nil:
		note, effective = "injected", &policy.DeadlineDefault
		outcome.Seconds = effective
	case controller == "" && class == "batch" && *own > policy.DeadlineMax:
		note, effective = "lowered", &policy.DeadlineMax
		outcome.Seconds = effective
	}
	outcome.Annotations[Deadline] = note
	if effective != nil {
		outcome.Annotations[DeadlineSeconds] = strconv.FormatInt(*effective, 10)
	}
}

// Seconds reads a duration such as `1h30m`; 0 for what is none.
func Seconds(text string) int64 {
	units := map[byte]int64{'d': 86400, 'h': 3600, 'm': 60, 's': 1}
	total, start := int64(0), 0
	for i := range len(text) {
		unit, isUnit := units[text[i]]
		if !isUnit {
			continue
		}
		count, err := strconv.ParseInt(text[start:i], 10, 32)
		if err != nil {
			return 0
		}
		total, start = total+count*unit, i+1
	}
	if start != len(text) {
		return 0
	}
	return total
}
