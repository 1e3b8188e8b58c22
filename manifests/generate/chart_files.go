package main

import _ "embed"

// valuesTemplate is the chart's values.yaml, without the settings that the base has.
//
//go:embed values.yaml.tmpl
var valuesTemplate string

// chartFiles are all files of the base except the namespace, which Helm creates.
var chartFiles = []chartFile{
	{from: "crd/plumbline.dev_nodesyncs.yaml"},
	{from: "crd/plumbline.dev_approvals.yaml"},
	{from: "core/serviceaccount.yaml", edits: []edit{
		replaced(1, `  # For IRSA, and not for EKS Pod Identity:
  # annotations:
  #   eks.amazonaws.com/role-arn: arn:aws:iam::<account>:role/<role>
`, `  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
`),
	}},
	{from: "core/role.yaml", edits: []edit{
		replaced(2, "  name: plumbline-karpenter\n  namespace: kube-system\n",
			"  name: plumbline-karpenter\n  namespace: {{ .Values.karpenterNamespace }}\n"),
	}},
	{from: "optional/sources.yaml", when: "range $namespace := .Values.sourceNamespaces", edits: []edit{
		replaced(2, "  namespace: flux-system\n", "  namespace: {{ $namespace }}\n"),
		startsDocument,
	}},
	{from: "core/records.yaml"},
	{from: "core/nodesyncs.yaml"},
	{from: "core/approver.yaml"},
	{from: "core/emergency.yaml"},
	{from: "core/metrics.yaml"},
	{from: "core/networkpolicy.yaml", when: "if .Values.networkPolicy.enabled", edits: []edit{
		replaced(1, `    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: monitoring
      ports:
        - port: metrics
`, `{{- with .Values.networkPolicy.metricsFrom }}
    - from:
        {{- toYaml . | nindent 8 }}
      ports:
        - port: metrics
{{- end }}
`),
		only("    - ports:\n        - port: webhook\n", ifWebhook),
	}},
	{from: "core/deployment.yaml", edits: deploymentEdits},
	{from: "core/disruptionbudget.yaml"},
	{from: "core/service.yaml", edits: []edit{fromHere("---\n# For a Git host", ifWebhook)}},
	{from: "rbac-charts/role.yaml", when: ifCharts, edits: []edit{
		replaced(2, "  name: plumbline-charts\n  namespace: kube-system\n",
			"  name: plumbline-charts\n  namespace: {{ .Values.karpenterNamespace }}\n"),
		atEnd(controllerRoles),
	}},
	{from: "optional/values.yaml", when: "if and .Values.charts.manage .Values.charts.valuesFrom"},
	{from: "optional/logs.yaml", when: "if and .Values.charts.manage .Values.charts.controllerLogs", edits: []edit{
		replaced(2, "  namespace: kube-system\n", "  namespace: {{ .Values.karpenterNamespace }}\n"),
	}},
	{from: "rbac-charts/karpenter.yaml", when: ifCharts, edits: []edit{
		// The chart creates a Role for the cluster's DNS in kube-system, whatever namespace Karpenter itself is in.
		replaced(2, "  namespace: kube-system\n", "  namespace: {{ $namespace }}\n"),
		fromHere("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n",
			`range $namespace := uniq (list .Values.karpenterNamespace "kube-system")`),
	}},
	{from: "rbac-charts/policy.yaml", when: ifCharts, edits: []edit{
		replaced(2, "'kube-system'", "'{{ .Values.karpenterNamespace }}'"),
		replaced(2, "    - name: allowed\n      expression: >-\n        []\n",
			"    - name: allowed\n      expression: >-\n        {{ toJson .Values.charts.allowedValues }}\n"),
	}},
	{from: "rbac-charts/guard.yaml", when: ifGuardedCharts, edits: []edit{breakGlass(1)}},
	{from: "guard/approvals.yaml"},
	{from: "guard/emergency.yaml"},
	{from: "guard/charts.yaml", when: ifGuard, edits: []edit{breakGlass(1)}},
	{from: "guard/definitions.yaml", when: ifGuard, edits: []edit{breakGlass(1)}},
	{from: "guard/finalizers.yaml", when: ifGuard, edits: []edit{
		breakGlass(1),
		replaced(1, `["system:serviceaccount:kube-system:karpenter"]`,
			`{{ list (printf "system:serviceaccount:%s:%s" .Values.karpenterNamespace .Values.karpenterServiceAccount) | toJson }}`),
	}},
	{from: "guard/crds.yaml", when: ifGuard, edits: []edit{breakGlass(1)}},
	{from: "guard/namespaces.yaml", when: ifGuard, edits: []edit{
		breakGlass(1),
		replaced(1, "[kube-system, ", "[{{ .Values.karpenterNamespace }}, "),
	}},
	{from: "guard/ownership.yaml", when: ifGuard, edits: []edit{breakGlass(1)}},
	{from: "monitoring/servicemonitor.yaml", when: "if .Values.serviceMonitor.enabled"},
	{from: "monitoring/prometheusrule.yaml", when: "if .Values.prometheusRule.enabled", braces: true},
}

const (
	ifWebhook = "if .Values.webhook.enabled"
	ifCharts  = "if .Values.charts.manage"
	ifGuard   = "if .Values.deletionGuard.enabled"

	ifGuardedCharts = "if and .Values.charts.manage .Values.deletionGuard.enabled"
)

// startsDocument separates the objects of a file that a range repeats.
func startsDocument(_ *chart, text string) (string, error) { return "---\n" + text, nil }

// breakGlass reads the groups that the deletion guard exempts from the values.
func breakGlass(times int) edit {
	return replaced(times, `["plumbline:break-glass"]`, "{{ toJson .Values.deletionGuard.breakGlassGroups }}")
}

var deploymentEdits = []edit{
	moved("replicas"), moved("affinity"), moved("nodeSelector"), moved("tolerations"), moved("resources"),
	replaced(1, "          image: plumbline\n", `          image: {{ include "plumbline.image" . }}
          {{- with .Values.image.pullPolicy }}
          imagePullPolicy: {{ . }}
          {{- end }}
`),
	after("      serviceAccountName: plumbline\n", `      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`),
	after(`    metadata:
      labels:
        app.kubernetes.io/name: plumbline
        app.kubernetes.io/part-of: plumbline
`, `      {{- with .Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
`),
	replaced(1, "            - --webhook-addr=:9292\n", `            {{- if .Values.webhook.enabled }}
            - --webhook-addr=:9292
            {{- end }}
            {{- if .Values.page.enabled }}
            - --page-addr=localhost:8090
            {{- end }}
            {{- with .Values.page.url }}
            - --page-url={{ . }}
            {{- end }}
            {{- if not .Values.deletionGuard.enabled }}
            - --deletion-guard=false
            {{- end }}
            {{- with .Values.sourceNamespaces }}
            - --source-namespaces={{ join "," . }}
            {{- end }}
            {{- if ne .Values.karpenterNamespace "kube-system" }}
            - --karpenter-namespaces={{ .Values.karpenterNamespace }}
            {{- end }}
            {{- with .Values.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
`),
	only("            - name: webhook\n              containerPort: 9292\n", ifWebhook),
}

// controllerRoles lets plumbline set IAM roles on Karpenter's ServiceAccount. The base has no such role, because it
// would name no ARN.
const controllerRoles = `{{- with .Values.charts.controllerRoles }}
---
# IAM roles that Karpenter's ServiceAccount may get (IRSA).
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: plumbline-charts-controller-roles
  labels:
    app.kubernetes.io/part-of: plumbline
    plumbline.dev/role: charts
rules:
  - apiGroups: [plumbline.dev]
    resources: [controllerroles]
    resourceNames: {{ toJson . }}
    verbs: [use]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: plumbline-charts-controller-roles
  labels:
    app.kubernetes.io/part-of: plumbline
    plumbline.dev/role: charts
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: plumbline-charts-controller-roles
subjects:
  - kind: ServiceAccount
    name: plumbline
    namespace: {{ $.Release.Namespace }}
{{- end }}
`
