// Command controller_runtime is the comparator as most webhooks are written: controller-runtime's server and decoder, a
// typed Pod, and PatchResponseFromRaw, which compares the whole pod before and after.
package main

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"os/signal"
	"strings"
	"syscall"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"gpu-tenure.io/bench/comparators/rules"
	"gpu-tenure.io/bench/comparators/serve"
)

type mutator struct {
	decoder admission.Decoder
	policy  *rules.Policy
}

func main() {
	flags := serve.Parse()
	log.SetLogger(zap.New()) // production: info and above
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		serve.Fail(err)
	}
	if err := batchv1.AddToScheme(scheme); err != nil {
		serve.Fail(err)
	}
	server := webhook.NewServer(webhook.Options{Host: flags.Host, Port: flags.Port, CertDir: flags.CertDir})
	server.Register("/mutate", &webhook.Admission{
		Handler: &mutator{decoder: admission.NewDecoder(scheme), policy: flags.Policy},
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := server.Start(ctx); err != nil {
		serve.Fail(err)
	}
}

// Handle implements admission.Handler.
func (m *mutator) Handle(_ context.Context, request admission.Request) admission.Response {
	if request.Kind.Kind == "Job" {
		return m.handleJob(request)
	}
	pod := &corev1.Pod{}
	if err := m.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !holdsGPU(&pod.Spec) {
		return admission.Allowed("")
	}
	apply(rules.Decide(m.policy, facts(pod, request.UserInfo.Username)), pod)
	return patched(request, pod)
}

func (m *mutator) handleJob(request admission.Request) admission.Response {
	job := &batchv1.Job{}
	if err := m.decoder.Decode(request, job); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !holdsGPU(&job.Spec.Template.Spec) {
		return admission.Allowed("")
	}
	username, own := request.UserInfo.Username, job.Spec.ActiveDeadlineSeconds
	outcome := rules.DecideJob(m.policy, username, own, job.Spec.Template.Annotations)
	job.Annotations = with(job.Annotations, outcome.Annotations)
	job.Spec.Template.Annotations = with(job.Spec.Template.Annotations, outcome.TemplateAnnotations)
	if outcome.Seconds != nil {
		job.Spec.ActiveDeadlineSeconds = outcome.Seconds
	}
	return patched(request, job)
}

func patched(request admission.Request, obj any) admission.Response {
	mutated, err := json.Marshal(obj)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, mutated)
}

func facts(pod *corev1.Pod, username string) rules.Facts {
	known := rules.Facts{
		Labels:          pod.Labels,
		Annotations:     pod.Annotations,
		RestartPolicy:   string(pod.Spec.RestartPolicy),
		DeadlineSeconds: pod.Spec.ActiveDeadlineSeconds,
		Username:        username,
	}
	for _, owner := range pod.OwnerReferences {
		if owner.Controller != nil && *owner.Controller {
			group, _, _ := strings.Cut(owner.APIVersion, "/")
			known.Controller = group + "/" + owner.Kind
		}
	}
	return known
}

func holdsGPU(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if rules.IsGPU(string(name)) {
					return true
				}
			}
		}
	}
	return false
}

func apply(outcome rules.Outcome, pod *corev1.Pod) {
	pod.Labels = with(pod.Labels, outcome.Labels)
	pod.Annotations = with(pod.Annotations, outcome.Annotations)
	if outcome.Seconds != nil {
		pod.Spec.ActiveDeadlineSeconds = outcome.Seconds
	}
}

func with(values, more map[string]string) map[string]string {
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, more)
	return values
}
