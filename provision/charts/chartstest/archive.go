// Package chartstest packs small charts with the names of Karpenter's two, for tests.
package chartstest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"testing"
)

// Archive packs a chart as `helm package` would, but reproducibly.
func Archive(t *testing.T, name, version string, templates map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	folder := tar.NewWriter(zipped)
	add := func(path, text string) {
		if err := folder.WriteHeader(&tar.Header{Name: name + "/" + path, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	add("Chart.yaml", "apiVersion: v2\nname: "+name+"\nversion: "+version+"\nappVersion: "+version+"\n")
	add("values.yaml", "additionalAnnotations: {}\nreplicas: 2\nsettings: {clusterName: \"\"}\ncontroller: {env: []}\n")
	for _, path := range slices.Sorted(maps.Keys(templates)) {
		add("templates/"+path, templates[path])
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// CRDTemplate returns a CRD template like those of the real chart.
func CRDTemplate(plural, kind string) string {
	return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: ` + plural + `.karpenter.sh
  annotations:
    {{- with .Values.additionalAnnotations }}
      {{- toYaml . | nindent 4 }}
    {{- end }}
    controller-gen.kubebuilder.io/version: v0.20.1
spec:
  group: karpenter.sh
  names: {kind: ` + kind + `, plural: ` + plural + `}
  scope: Cluster
  versions: []
`
}

// DeploymentTemplate is a Deployment that fails to render without settings.clusterName.
const DeploymentTemplate = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: karpenter
  namespace: {{ .Release.Namespace }}
spec:
  replicas: {{ .Values.replicas }}
  minReadySeconds: 3
  clusterName: {{ required "no settings.clusterName" .Values.settings.clusterName }}
`

// CRDs packs a CRD chart with two CRDs.
func CRDs(t *testing.T, version string) []byte {
	t.Helper()
	return Archive(t, "karpenter-crd", version, map[string]string{
		"nodepools.yaml": CRDTemplate("nodepools", "NodePool"), "nodeclaims.yaml": CRDTemplate("nodeclaims", "NodeClaim"),
	})
}

// Controller packs a main chart with one Deployment.
func Controller(t *testing.T, version string) []byte {
	t.Helper()
	return Archive(t, "karpenter", version, map[string]string{"deployment.yaml": DeploymentTemplate})
}
