package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// bed is a cluster, charts and an Installer between them.
type bed struct {
	*testing.T
	api       *fakeAPIServer
	charts    *charts.Charts
	want      Request
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
		charts: stored(t, "1.14.1", chartstest.CRDs(t, "1.14.1"), chartstest.Controller(t, "1.14.1")),
		want:   Request{Installation: charts.Installation{Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}},
	}
}

// stored returns Charts that a Store has resolved.
func stored(t *testing.T, version string, crd, controller []byte) *charts.Charts {
	t.Helper()
	files := fstest.MapFS{
		"charts/karpenter-crd-" + version + ".tgz": {Data: crd},
		"charts/karpenter-" + version + ".tgz":     {Data: controller},
	}
	found, err := charts.NewStore(charts.StoreOptions{Dir: t.TempDir()}).
		Resolve(t.Context(), charts.Ref{Repository: "charts", Version: version}, charts.Access{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func (b *bed) crds() (Result, error) {
	return b.installer.EnsureCRDs(b.Context(), b.charts, b.want)
}

func (b *bed) controller() (Result, error) {
	return b.installer.EnsureController(b.Context(), b.charts, b.want)
}

// both installs both charts, and drops the recorded writes.
func (b *bed) both() {
	b.Helper()
	for _, ensure := range []func() (Result, error){b.crds, b.controller} {
		if result, err := ensure(); err != nil || !result.Changed {
			b.Fatalf("install = %+v, %v", result, err)
		}
	}
	b.api.takeWrites()
}

func (b *bed) state() State {
	b.Helper()
	state, err := b.installer.State(b.Context(), b.want.Namespace)
	if err != nil {
		b.Fatal(err)
	}
	return state
}

// setStatus changes the last revision of a release to what a kill, or another program, would have left.
func (b *bed) setStatus(secret, status string) {
	b.Helper()
	b.rewrite(secret, func(release, labels map[string]any) {
		labels["status"] = status
		release["info"].(map[string]any)["status"] = status
	})
}

// forge adds an object to the manifest of a revision, as can be done by anyone who may write Helm's records.
func (b *bed) forge(secret, object string) {
	b.Helper()
	b.rewrite(secret, func(release, _ map[string]any) {
		release["manifest"] = release["manifest"].(string) + "\n---\n" + object
	})
}

// rewrite changes Helm's record of a revision, and its labels.
func (b *bed) rewrite(secret string, change func(release, labels map[string]any)) {
	b.Helper()
	object := b.api.get(secretsPath + secret)
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
	change(release, object["metadata"].(map[string]any)["labels"].(map[string]any))
	if raw, err = json.Marshal(release); err != nil {
		b.Fatal(err)
	}
	data["release"] = base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(raw)))
	b.api.put(secretsPath+secret, object)
}
