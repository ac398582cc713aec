// Command controller_runtime is the comparator as most webhooks are written: controller-runtime's server and decoder, a
// typed Pod, and PatchResponseFromRaw, which compares the whole pod before and after.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os/signal"
	"strings"
	"syscall"

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
	pod := &corev1.Pod{}
	if err := m.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if !holdsGPU(&pod.Spec) {
		return admission.Allowed("")
	}
	apply(rules.Decide(m.policy, facts(pod, request.UserInfo.Username)), pod)
	mutated, err := json.Marshal(pod)
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
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	for key, value := range outcome.Labels {
		pod.Labels[key] = value
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for key, value := range outcome.Annotations {
		pod.Annotations[key] = value
	}
	if outcome.Seconds != nil {
		pod.Spec.ActiveDeadlineSeconds = outcome.Seconds
	}
}
