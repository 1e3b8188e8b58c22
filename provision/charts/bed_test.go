package charts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// bed is a cluster, charts and an Installer between them.
type bed struct {
	*testing.T
	api       *fakeAPIServer
	charts    *Charts
	into      Installation
	installer *Installer
}

func newBed(t *testing.T) *bed {
	t.Helper()
	api := newFakeAPIServer(t)
	installer, err := NewInstaller(InstallerOptions{Config: api.config()})
	if err != nil {
		t.Fatal(err)
	}
	return &bed{
		T: t, api: api, installer: installer,
		charts: stored("1.14.1", crdArchive(t, "1.14.1"), controllerArchive(t, "1.14.1")),
		into:   Installation{Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"},
	}
}

// stored are Charts as a Store would return them.
func stored(version string, crd, controller []byte) *Charts {
	load := func(name string, archive []byte) func() (*chart.Chart, error) {
		return open(name, version, func() ([]byte, error) { return archive, nil })
	}
	return &Charts{
		Version:   version,
		CRDDigest: "sha256:" + strings.Repeat("c", 64), Digest: "sha256:" + strings.Repeat("d", 64),
		loadCRD: load(CRDChart, crd), loadController: load(ControllerChart, controller),
	}
}

func (b *bed) crds() (Result, error) {
	return b.installer.EnsureCRDs(b.Context(), b.charts, b.into)
}

func (b *bed) controller() (Result, error) {
	return b.installer.EnsureController(b.Context(), b.charts, b.into)
}

// both installs both charts, and forgets the writes.
func (b *bed) both() {
	b.Helper()
	for _, ensure := range []func() (Result, error){b.crds, b.controller} {
		if result, err := ensure(); err != nil || !result.Changed {
			b.Fatalf("install = %+v, %v", result, err)
		}
	}
	b.api.took()
}

func (b *bed) state() State {
	b.Helper()
	state, err := b.installer.State(b.Context(), b.into.Namespace)
	if err != nil {
		b.Fatal(err)
	}
	return state
}

// setStatus rewrites the last revision of a release as a kill at work, or
// another program, would have left it.
func (b *bed) setStatus(secret, status string) {
	b.Helper()
	object := b.api.get(secretsPath + secret)
	object["metadata"].(map[string]any)["labels"].(map[string]any)["status"] = status
	data := object["data"].(map[string]any)
	outer, err := base64.StdEncoding.DecodeString(data["release"].(string))
	if err != nil {
		b.Fatal(err)
	}
	inner, err := base64.StdEncoding.DecodeString(string(outer))
	if err != nil {
		b.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(inner))
	if err != nil {
		b.Fatal(err)
	}
	raw, err := io.ReadAll(zipped)
	if err != nil {
		b.Fatal(err)
	}
	var release map[string]any
	if err := json.Unmarshal(raw, &release); err != nil {
		b.Fatal(err)
	}
	release["info"].(map[string]any)["status"] = status
	if raw, err = json.Marshal(release); err != nil {
		b.Fatal(err)
	}
	data["release"] = base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(raw)))
	b.api.put(secretsPath+secret, object)
}
