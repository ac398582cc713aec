{{/*
The kinds that make GPU pods besides Jobs, by the shape of their specifications, as JSON. They are those of
policy/workloads.py; a kind that is not installed costs nothing.
*/}}
{{- define "gpu-tenure.workloadRules" -}}
{
  "workloads": [
    {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["daemonsets", "deployments", "replicasets", "statefulsets"]},
    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["replicationcontrollers"]},
    {"apiGroups": ["kubeflow.org"], "apiVersions": ["*"], "resources": ["notebooks"]}
  ],
  "cronjobs": [{"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["cronjobs"]}],
  "jobsets": [{"apiGroups": ["jobset.x-k8s.io"], "apiVersions": ["*"], "resources": ["jobsets"]}],
  "leaderworkersets": [
    {"apiGroups": ["leaderworkerset.x-k8s.io"], "apiVersions": ["*"], "resources": ["leaderworkersets"]}
  ],
  "ray": [{"apiGroups": ["ray.io"], "apiVersions": ["*"], "resources": ["rayclusters", "rayjobs", "rayservices"]}],
  "training": [
    {
      "apiGroups": ["kubeflow.org"],
      "apiVersions": ["*"],
      "resources": ["jaxjobs", "mpijobs", "mxjobs", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"]
    }
  ],
  "volcano": [{"apiGroups": ["batch.volcano.sh"], "apiVersions": ["*"], "resources": ["jobs"]}],
  "workflows": [{"apiGroups": ["argoproj.io"], "apiVersions": ["*"], "resources": ["cronworkflows", "workflows"]}]
}
{{- end }}

{{/*
Whether an object of a shape makes pods that ask for a GPU, or might. Arguments: the root, and the shape. Lists longer than any
honest workload's match unread.
*/}}
{{- define "gpu-tenure.cel.makesGPU" -}}
{{- $root := index . 0 -}}
{{- $shape := index . 1 -}}
{{- if eq $shape "workloads" -}}
{{ include "gpu-tenure.cel.isGPU" (list $root "object.?spec.?template") }}
{{- else if eq $shape "cronjobs" -}}
{{ include "gpu-tenure.cel.isGPU" (list $root "object.?spec.?jobTemplate.?spec.?template") }}
{{- else if eq $shape "jobsets" -}}
object.?spec.?replicatedJobs.orValue([]).size() > 32 || object.?spec.?replicatedJobs.orValue([]).exists(item,
  {{- include "gpu-tenure.cel.isGPU" (list $root "item.?template.?spec.?template") | nindent 2 }})
{{- else if eq $shape "leaderworkersets" -}}
[object.?spec.?leaderWorkerTemplate.?leaderTemplate, object.?spec.?leaderWorkerTemplate.?workerTemplate].exists(item,
  {{- include "gpu-tenure.cel.isGPU" (list $root "item") | nindent 2 }})
{{- else if eq $shape "ray" -}}
[object.?spec, object.?spec.?rayClusterSpec, object.?spec.?rayClusterConfig].exists(cluster,
  cluster.?workerGroupSpecs.orValue([]).size() > 32 ||
  (cluster.?workerGroupSpecs.orValue([]) + [cluster.?headGroupSpec.orValue({})]).exists(item,
  {{- include "gpu-tenure.cel.isGPU" (list $root "item.?template") | nindent 4 }}))
{{- else if eq $shape "training" -}}
object.?spec.orValue({}).exists(key, key.endsWith("ReplicaSpecs") && object.spec[key].exists(role,
  {{- include "gpu-tenure.cel.isGPU" (list $root "object.spec[key][role].?template") | nindent 2 }}))
{{- else if eq $shape "volcano" -}}
object.?spec.?tasks.orValue([]).size() > 32 || object.?spec.?tasks.orValue([]).exists(item,
  {{- include "gpu-tenure.cel.isGPU" (list $root "item.?template") | nindent 2 }})
{{- else if eq $shape "workflows" -}}
[object.?spec, object.?spec.?workflowSpec].exists(flow, flow.?templates.orValue([]).size() > 100 ||
  flow.?templates.orValue([]).exists(item, [dyn({"spec": dyn({
      "containers": dyn([item.?container.orValue({}), item.?script.orValue({})] +
        item.?containerSet.?containers.orValue([]) + item.?sidecars.orValue([])),
      "initContainers": item.?initContainers.orValue([])})})].exists(pod,
    {{- include "gpu-tenure.cel.isGPU" (list $root "pod") | nindent 4 }})))
{{- else -}}
{{ fail (printf "no shape %s" $shape) }}
{{- end -}}
{{- end }}
