// Command plain is the comparator as a careful Go programmer writes it for speed with the standard library alone:
// net/http, encoding/json into structs with just the fields in use, and a patch written by hand.
package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"

	"gpu-tenure.io/bench/comparators/rules"
	"gpu-tenure.io/bench/comparators/serve"
)

const maxBody = 7 << 20

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID  string `json:"uid"`
	Kind struct {
		Kind string `json:"kind"`
	} `json:"kind"`
	UserInfo struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	Object object `json:"object"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	Patch     []byte `json:"patch,omitempty"`
	PatchType string `json:"patchType,omitempty"`
}

// object is a pod or a Job: a Job has a template.
type object struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		podSpec
		Template struct {
			Metadata metadata `json:"metadata"`
			Spec     podSpec  `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type metadata struct {
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	OwnerReferences []owner           `json:"ownerReferences"`
}

type podSpec struct {
	RestartPolicy         string      `json:"restartPolicy"`
	ActiveDeadlineSeconds *int64      `json:"activeDeadlineSeconds"`
	InitContainers        []container `json:"initContainers"`
	Containers            []container `json:"containers"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Controller bool   `json:"controller"`
}

type container struct {
	Resources struct {
		Limits map[string]json.RawMessage `json:"limits"`
	} `json:"resources"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func main() {
	flags := serve.Parse()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mutate", func(w http.ResponseWriter, r *http.Request) { mutate(flags.Policy, w, r) })
	server := &http.Server{Addr: net.JoinHostPort(flags.Host, strconv.Itoa(flags.Port)), Handler: mux}
	err := server.ListenAndServeTLS(filepath.Join(flags.CertDir, "tls.crt"), filepath.Join(flags.CertDir, "tls.key"))
	serve.Fail(err)
}

func mutate(policy *rules.Policy, w http.ResponseWriter, r *http.Request) {
	var asked review
	body, err := read(w, r)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil || asked.Request == nil {
		http.Error(w, "not an AdmissionReview", http.StatusBadRequest)
		return
	}
	answer := response{UID: asked.Request.UID, Allowed: true}
	if operations := decide(policy, asked.Request); len(operations) > 0 {
		answer.PatchType = "JSONPatch"
		answer.Patch, err = json.Marshal(operations)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	content, err := json.Marshal(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &answer})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content)
}

func decide(policy *rules.Policy, asked *request) []operation {
	obj := &asked.Object
	if asked.Kind.Kind == "Job" {
		if !holdsGPU(&obj.Spec.Template.Spec) {
			return nil
		}
		username, own := asked.UserInfo.Username, obj.Spec.ActiveDeadlineSeconds
		return jobPatch(obj, rules.DecideJob(policy, username, own, obj.Spec.Template.Metadata.Annotations))
	}
	if !holdsGPU(&obj.Spec.podSpec) {
		return nil
	}
	return patch(obj, rules.Decide(policy, facts(obj, asked.UserInfo.Username)))
}

// read takes the body into a buffer of the announced size, so that it grows but once.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	if r.ContentLength <= 0 || r.ContentLength > maxBody {
		return io.ReadAll(limited)
	}
	body := make([]byte, r.ContentLength)
	_, err := io.ReadFull(limited, body)
	return body, err
}

func facts(pod *object, username string) rules.Facts {
	known := rules.Facts{
		Labels:          pod.Metadata.Labels,
		Annotations:     pod.Metadata.Annotations,
		RestartPolicy:   pod.Spec.RestartPolicy,
		DeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		Username:        username,
	}
	for _, owner := range pod.Metadata.OwnerReferences {
		if owner.Controller {
			group, _, _ := strings.Cut(owner.APIVersion, "/")
			known.Controller = group + "/" + owner.Kind
		}
	}
	return known
}

func holdsGPU(spec *podSpec) bool {
	for _, containers := range [][]container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if rules.IsGPU(name) {
					return true
				}
			}
		}
	}
	return false
}

func patch(pod *object, outcome rules.Outcome) []operation {
	operations := make([]operation, 0, len(outcome.Labels)+len(outcome.Annotations)+1)
	operations = additions(operations, "/metadata/labels", pod.Metadata.Labels, outcome.Labels)
	operations = additions(operations, "/metadata/annotations", pod.Metadata.Annotations, outcome.Annotations)
	if outcome.Seconds != nil {
		operations = append(operations, operation{"add", "/spec/activeDeadlineSeconds", *outcome.Seconds})
	}
	return operations
}

func jobPatch(job *object, outcome rules.JobOutcome) []operation {
	operations := make([]operation, 0, 4)
	operations = additions(operations, "/metadata/annotations", job.Metadata.Annotations, outcome.Annotations)
	template := job.Spec.Template.Metadata.Annotations
	operations = additions(operations, "/spec/template/metadata/annotations", template, outcome.TemplateAnnotations)
	if outcome.Seconds != nil {
		operations = append(operations, operation{"add", "/spec/activeDeadlineSeconds", *outcome.Seconds})
	}
	return operations
}

func additions(operations []operation, path string, before, wanted map[string]string) []operation {
	if before == nil {
		return append(operations, operation{"add", path, wanted})
	}
	for key, value := range wanted {
		if old, present := before[key]; !present || old != value {
			operations = append(operations, operation{"add", path + "/" + strings.ReplaceAll(key, "/", "~1"), value})
		}
	}
	return operations
}
