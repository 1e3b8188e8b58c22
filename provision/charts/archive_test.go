package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"testing"
)

// archive packs a chart as `helm package` would, and the same one alike each time.
func archive(t *testing.T, name, version string, templates map[string]string) []byte {
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

// crdTemplate is a CRD as the real chart has them.
func crdTemplate(plural, kind string) string {
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

const deploymentTemplate = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: karpenter
  namespace: {{ .Release.Namespace }}
spec:
  replicas: {{ .Values.replicas }}
  minReadySeconds: 3
  clusterName: {{ required "no settings.clusterName" .Values.settings.clusterName }}
`

func crdArchive(t *testing.T, version string) []byte {
	t.Helper()
	return archive(t, CRDChart, version, map[string]string{
		"nodepools.yaml": crdTemplate("nodepools", "NodePool"), "nodeclaims.yaml": crdTemplate("nodeclaims", "NodeClaim"),
	})
}

func controllerArchive(t *testing.T, version string) []byte {
	t.Helper()
	return archive(t, ControllerChart, version, map[string]string{"deployment.yaml": deploymentTemplate})
}
