package bench

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// The module with the CRDs of Flux's sources.
const fluxSources = "github.com/fluxcd/source-controller@v1.9.6"

var (
	gitRepositories = schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: "gitrepositories"}
	kustomizations  = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
)

// fluxFlags raise what would slow it down.
var fluxFlags = []string{"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-ssa=8", "--no-remote-bases"}

// flux is its kustomize-controller. Its source-controller cannot be built from
// modules here, as one that it needs is not served; the bench stands in for it: it packs
// the clone and says so in the status of the GitRepository. So Flux's own fetch
// is not in its times, which are the least that it may take.
type flux struct {
	*ground
	programsOf
	// artifacts is where the bench serves them, artifact the newest.
	artifacts string
	artifact  atomic.Pointer[[]byte]
}

func (f *flux) users() []string { return []string{peersUser} }

func (f *flux) settings() string {
	return "kustomize-controller " + binaries.FluxVersion + " with " + strings.Join(fluxFlags, " ") +
		"; no source-controller: the bench hands it the artifact, so that its fetch costs nothing"
}

func (f *flux) start(ctx context.Context) error {
	paths, err := f.builder.Build(ctx, binaries.KustomizeController)
	if err != nil {
		return fmt.Errorf("%w: %w", errMissing, err)
	}
	if err := f.installCRDsOf(ctx); err != nil {
		return err
	}
	f.artifacts, err = f.serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(*f.artifact.Load()) // the controller has gone if it cannot be written
	}))
	if err != nil {
		return err
	}
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	args := append([]string{"--metrics-addr=0", fmt.Sprintf("--health-addr=127.0.0.1:%d", ports[0])}, fluxFlags...)
	p, err := f.run(ctx, "kustomize-controller", paths[binaries.KustomizeController], args, []string{"RUNTIME_NAMESPACE=" + peersNamespace})
	if err != nil {
		return err
	}
	f.programsOf = programsOf{p}
	return nil
}

func (f *flux) installCRDsOf(ctx context.Context) error {
	own, err := moduleFile(ctx, "github.com/fluxcd/kustomize-controller@v"+binaries.FluxVersion, "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml")
	if err != nil {
		return err
	}
	var files []string
	kinds := []schema.GroupVersionResource{kustomizations}
	for _, kind := range []string{"buckets", "externalartifacts", "gitrepositories", "ocirepositories"} {
		files = append(files, "config/crd/bases/source.toolkit.fluxcd.io_"+kind+".yaml")
		kinds = append(kinds, gitRepositories.GroupVersion().WithResource(kind))
	}
	sources, err := moduleFile(ctx, fluxSources, files...)
	if err != nil {
		return err
	}
	if _, err := f.kube.Kubectl(ctx, append(own, sources...), "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	return f.awaitServed(ctx, kinds...)
}

func (f *flux) follow(ctx context.Context, commit string) error {
	_, err := f.apply(ctx, fmt.Appendf(nil, fluxYAML, peersNamespace, f.host.url, folder))
	return errors.Join(err, f.notify(ctx, commit))
}

// notify does the source-controller's part.
func (f *flux) notify(ctx context.Context, commit string) error {
	packed, err := f.pack(ctx)
	if err != nil {
		return err
	}
	f.artifact.Store(&packed)
	now := time.Now().UTC().Format(time.RFC3339)
	revision := branch + "@sha1:" + commit
	status := fmt.Appendf(nil, `{"status":{"observedGeneration":1,"artifact":{"digest":"sha256:%x","lastUpdateTime":%q,"path":%q,"revision":%q,"size":%d,"url":%q},
		"conditions":[{"type":"Ready","status":"True","reason":"Succeeded","message":"stored","observedGeneration":1,"lastTransitionTime":%q}]}}`,
		sha256.Sum256(packed), now, commit+".tar.gz", revision, len(packed), f.artifacts+"/"+commit+".tar.gz", now)
	_, err = f.objects.Resource(gitRepositories).Namespace(peersNamespace).
		Patch(ctx, "bench", types.MergePatchType, status, metav1.PatchOptions{FieldManager: "source-controller"}, "status")
	if err != nil {
		return fmt.Errorf("hand Flux the commit %s: %w", commit, err)
	}
	return nil
}

// pack is the engineer's clone as an artifact.
func (f *flux) pack(ctx context.Context) ([]byte, error) {
	listed, err := f.host.repo.Git(ctx, "ls-files")
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zipped)
	for name := range strings.Lines(listed) {
		name = strings.TrimSpace(name)
		content, err := f.host.repo.Read(name)
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack the clone: %w", err)
		}
		if _, err := archive.Write(content); err != nil {
			return nil, fmt.Errorf("pack the clone: %w", err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("pack the clone: %w", err)
	}
	return packed.Bytes(), nil
}

func (f *flux) settled(ctx context.Context, commit string) error {
	return f.until(ctx, kustomizations, peersNamespace, []string{"bench"}, "be Ready at "+commit, func(o *unstructured.Unstructured) (bool, error) {
		revision, _, err := unstructured.NestedString(o.Object, "status", "lastAppliedRevision")
		return strings.HasSuffix(revision, commit) && isReady(o), err
	})
}

const fluxYAML = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: bench, namespace: %[1]s}
spec: {interval: 10h, url: %[2]q}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: bench, namespace: %[1]s}
spec:
  interval: 10h
  retryInterval: 10s
  path: ./%[3]s/nodes
  prune: true
  sourceRef: {kind: GitRepository, name: bench}
`
