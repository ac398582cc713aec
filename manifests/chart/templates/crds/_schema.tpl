{{/* Parts of the schemas that occur more than once. */}}

{{- define "gpu-tenure.cel.durationPattern" -}}
'^([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$'
{{- end }}

{{/* A span of time. Argument: the description. */}}
{{- define "gpu-tenure.schema.duration" -}}
type: string
description: {{ . | quote }}
maxLength: 40
x-kubernetes-validations:
  - rule: self != '' && self.matches({{ include "gpu-tenure.cel.durationPattern" . }})
    message: must be a duration such as 90m, 2h or 1d12h
  - rule: {{ include "gpu-tenure.cel.seconds" "self" }} <= 315360000
    message: must be at most ten years (3650d)
{{- end }}

{{/* The same, longer than nothing. */}}
{{- define "gpu-tenure.schema.positiveDuration" -}}
{{ include "gpu-tenure.schema.duration" . }}
  - rule: "!self.matches('^[0dhms]+$')"
    message: must be longer than 0s
{{- end }}

{{/* The seconds of a duration, as a CEL expression that never fails. Argument: an expression that gives its text. */}}
{{- define "gpu-tenure.cel.seconds" -}}
{{- $terms := list -}}
{{- range list (list "d" 86400) (list "h" 3600) (list "m" 60) (list "s" 1) -}}
{{- $terms = append $terms (printf "int('0' + %s.find('[0-9]{1,9}%s').replace('%s', '')) * %d" $ (index . 0) (index . 0) (index . 1 | int)) -}}
{{- end -}}
({{ join " + " $terms }})
{{- end }}

{{/* Idle terms, each of which may be left out. Argument: the description. */}}
{{- define "gpu-tenure.schema.idle" -}}
type: object
description: {{ . | quote }}
properties:
  action:
    type: string
    enum: [observe, warn, evict, stop]
    description: What happens to an idle pod, from nothing to stopping its owner.
  after:
    {{- include "gpu-tenure.schema.positiveDuration" "Idle for this long, without a break." | nindent 4 }}
  utilization:
    type: integer
    format: int32
    minimum: 1
    maximum: 100
    description: Percent; idle means below it.
  statistic:
    type: string
    enum: [maximum, average]
    description: What must be below, the maximum or the average of the samples in the window.
  memory:
    x-kubernetes-int-or-string: true
    maxLength: 40
    description: Idle only if the device's memory in use is below this too, as a quantity (500Mi) or of the device's or vGPU's limit (5%). Left out, memory is not looked at.
    x-kubernetes-validations:
      # The first pattern bounds the exponent: reading a number with millions of digits would take for ever.
      - rule: >-
          type(self) == int ? self > 0 && self <= 1152921504606846976 :
          string(self).matches('^([1-9]|[1-9][0-9]|100)%$') ||
          string(self).matches('^[+]?[0-9.]{1,20}([eE][+-]?(0?[0-9]|[1-5][0-9]|6[0-4])|[numkMGTPE]|[KMGTPE]i)?$') && isQuantity(string(self)) &&
          quantity(string(self)).isGreaterThan(quantity('0')) && !quantity(string(self)).isGreaterThan(quantity('1Ei'))
        message: must be a quantity such as 500Mi, at most 1Ei, or a percentage from 1% to 100%
  grace:
    {{- include "gpu-tenure.schema.duration" "From the warning to the action." | nindent 4 }}
  warmUp:
    {{- include "gpu-tenure.schema.duration" "For this long after a container's start nothing is judged." | nindent 4 }}
  of:
    type: string
    enum: [card, given]
    description: What utilization is a percentage of, the card (the default) or the cores of it that the pod was given. MIG instances always count by themselves.
  neverTouched:
    type: boolean
    description: A share that was allocated for the whole window and the warm-up and never used counts as idle too; Unknown if left out.
{{- end }}

{{/* A deadline. Argument: the description. */}}
{{- define "gpu-tenure.schema.deadline" -}}
type: object
description: {{ . | quote }}
properties:
  default:
    {{- include "gpu-tenure.schema.positiveDuration" "What a pod or Job without a deadline of its own gets; 7d (or max, if that is less) if left out." | nindent 4 }}
  max:
    {{- include "gpu-tenure.schema.positiveDuration" "The longest deadline one may ask for; 14d (or default, if that is more) if left out." | nindent 4 }}
  jobs:
    type: string
    enum: [job, pod, none]
    description: Where a Job's deadline is written. job (the default) bounds the whole Job, pod every single pod of it, none neither.
x-kubernetes-validations:
  - rule: >-
      !has(self.default) || !has(self.max) ||
      {{ include "gpu-tenure.cel.seconds" "self.default" }} <=
      {{ include "gpu-tenure.cel.seconds" "self.max" }}
    message: must not be longer than max
    fieldPath: .default
{{- end }}

{{- define "gpu-tenure.cel.isKey" -}}
{{ . }}.matches('^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$') &&
!{{ . }}.matches('([.][.-]|-[.]).*/')
{{- end }}

{{/* A map of labels. */}}
{{- define "gpu-tenure.schema.labels" -}}
type: object
maxProperties: 50
additionalProperties:
  type: string
  maxLength: 63
  x-kubernetes-validations:
    - rule: self.matches('^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')
      message: must be a valid label value
x-kubernetes-validations:
  - rule: >-
      self.all(key, key.size() <= 317 && {{ include "gpu-tenure.cel.isKey" "key" | nindent 6 | trim }})
    message: must have valid label keys
{{- end }}

{{/* A label selector as Kubernetes reads it. Argument: the description. */}}
{{- define "gpu-tenure.schema.selector" -}}
type: object
description: {{ . | quote }}
x-kubernetes-map-type: atomic
properties:
  matchLabels:
    {{- include "gpu-tenure.schema.labels" . | nindent 4 }}
  matchExpressions:
    type: array
    maxItems: 50
    items:
      type: object
      required: [key, operator]
      properties:
        key:
          type: string
          maxLength: 317
          x-kubernetes-validations:
            - rule: >-
                {{ include "gpu-tenure.cel.isKey" "self" | nindent 16 | trim }}
              message: must be a valid label key
        operator: {type: string, enum: [In, NotIn, Exists, DoesNotExist]}
        values:
          type: array
          maxItems: 500
          items:
            type: string
            maxLength: 63
            pattern: '^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$'
      x-kubernetes-validations:
        - rule: "self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !has(self.values) || self.values.size() == 0"
          message: must have values with In and NotIn, and none with Exists and DoesNotExist
          fieldPath: .values
{{- end }}

{{/* A toleration as the API server takes it on pods. */}}
{{- define "gpu-tenure.schema.toleration" -}}
type: object
properties:
  key: {type: string, maxLength: 317}
  operator: {type: string, enum: [Exists, Equal]}
  value: {type: string, maxLength: 63}
  effect: {type: string, enum: [NoSchedule, PreferNoSchedule, NoExecute]}
  tolerationSeconds: {type: integer, format: int64}
x-kubernetes-validations:
  - rule: >-
      !has(self.key) || self.key == '' || {{ include "gpu-tenure.cel.isKey" "self.key" | nindent 6 | trim }}
    message: must be the key of a taint
    fieldPath: .key
  - rule: has(self.key) && self.key != '' || has(self.operator) && self.operator == 'Exists'
    message: key is required, unless operator is Exists
  - rule: "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'"
    message: must be empty where operator is Exists
    fieldPath: .value
  - rule: "!has(self.value) || {{ include "gpu-tenure.cel.isLabelValue" "self.value" }}"
    message: must be the value of a taint
    fieldPath: .value
  - rule: "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'"
    message: needs the effect NoExecute
    fieldPath: .tolerationSeconds
{{- end }}

{{- define "gpu-tenure.cel.isLabelValue" -}}
{{ . }}.matches('^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$')
{{- end }}

{{/* A term of a node affinity as the API server takes it on pods; one that selects nothing is a mistake. */}}
{{- define "gpu-tenure.schema.nodeTerm" -}}
type: object
properties:
  matchExpressions:
    type: array
    maxItems: 20
    items:
      type: object
      required: [key, operator]
      properties:
        key: {type: string, maxLength: 317}
        operator: {type: string, enum: [In, NotIn, Exists, DoesNotExist, Gt, Lt]}
        values:
          type: array
          maxItems: 50
          items: {type: string, maxLength: 63}
      x-kubernetes-validations:
        - rule: >-
            {{ include "gpu-tenure.cel.isKey" "self.key" | nindent 12 | trim }}
          message: must be a valid label key
          fieldPath: .key
        - rule: "!has(self.values) || self.values.all(value, {{ include "gpu-tenure.cel.isLabelValue" "value" }})"
          message: must be valid label values
          fieldPath: .values
        - rule: >-
            self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 :
            self.operator in ['Gt', 'Lt'] ? has(self.values) && self.values.size() == 1 &&
            self.values[0].matches('^(0|-?[1-9][0-9]{0,18})$') :
            !has(self.values) || self.values.size() == 0
          message: must have values with In and NotIn, one whole number in quotes with Gt and Lt, and none with Exists and DoesNotExist
          fieldPath: .values
  matchFields:
    type: array
    maxItems: 20
    items:
      type: object
      required: [key, operator, values]
      properties:
        key: {type: string, enum: [metadata.name]}
        operator: {type: string, enum: [In, NotIn]}
        values:
          type: array
          minItems: 1
          maxItems: 1
          items:
            type: string
            maxLength: 253
            x-kubernetes-validations:
              - rule: self.matches('^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$')
                message: must be the name of a node
x-kubernetes-validations:
  - rule: has(self.matchExpressions) && self.matchExpressions.size() > 0 || has(self.matchFields) && self.matchFields.size() > 0
    message: "must hold an expression: without any it selects no node"
{{- end }}
