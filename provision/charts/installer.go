package charts

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/confine"
)

// InstallerOptions are what an Installer works with.
type InstallerOptions struct {
	// Config reaches the cluster. It is copied.
	Config *rest.Config
	// StillLeader is asked before the first write; its error stops the step.
	// Default: nobody is asked.
	StillLeader func(context.Context) error
	// Now is the clock. Default: time.Now.
	Now    func() time.Time
	Logger logr.Logger
	// Confine renders charts in child processes. Default: in this one.
	Confine *confine.Runner
}

// requestTimeout is for one request to the API server, so that a step whose
// server went away ends.
const requestTimeout = 30 * time.Second

// Installer brings charts into one cluster.
type Installer struct {
	options InstallerOptions
	config  *rest.Config
	// objects reads metadata alone.
	objects metadata.Interface
	// secrets lists the Secrets of a namespace.
	secrets func(namespace string) SecretLister
}

// NewInstaller returns an Installer. It asks the cluster nothing.
func NewInstaller(options InstallerOptions) (*Installer, error) {
	config := rest.CopyConfig(options.Config)
	config.Timeout = requestTimeout
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for Helm's releases: %w", err)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.StillLeader == nil {
		options.StillLeader = func(context.Context) error { return nil }
	}
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	return &Installer{
		options: options,
		config:  config,
		objects: client,
		secrets: func(namespace string) SecretLister { return client.Resource(secrets).Namespace(namespace) },
	}, nil
}

// Result says what a step did.
type Result struct {
	Step Step
	// Changed says that something was written.
	Changed bool
	// Revision of the release, after the step.
	Revision int
	// Version of its chart: of CRDs that are newer than what is wanted, theirs.
	Version string
	// Moved are the objects that were deleted or changed, for which a release is
	// repaired.
	Moved []Move
	// Fought are objects that were put right again and again, and are left as
	// somebody has changed them once more.
	Fought []Move
}

// State reads what Helm knows of the two releases.
func (i *Installer) State(ctx context.Context, namespace string) (State, error) {
	return readState(ctx, i.secrets(namespace))
}

// EnsureCRDs brings the CRD chart to the cluster, and puts right what somebody
// has deleted or changed of it. Whether the CRDs are Established is for the
// caller to see. Errors: *ForeignReleaseError,
// *ForeignObjectsError, *TerminatingError, *RejectedError, *ForbiddenError,
// *ReconciledError, *DroppedCRDsError, *UnprotectedCRDsError, *BusyError,
// *MalformedError, or one of the API server's.
func (i *Installer) EnsureCRDs(ctx context.Context, c *Charts, into Installation) (Result, error) {
	return i.ensure(ctx, crdTask(c, into))
}

// EnsureController brings the main chart to the cluster, its crds/ left out.
// Whether its rollout is complete is for the caller to see. Errors: those of
// EnsureCRDs, *ContradictionError, *ValuesError and *RenderError.
func (i *Installer) EnsureController(ctx context.Context, c *Charts, into Installation) (Result, error) {
	t, err := controllerTask(c, into)
	if err != nil {
		return Result{}, err
	}
	return i.ensure(ctx, t)
}

func (i *Installer) ensure(ctx context.Context, t task) (Result, error) {
	want, err := t.mark()
	if err != nil {
		return Result{}, err
	}
	state, err := i.State(ctx, t.namespace)
	if err != nil {
		return Result{}, err
	}
	r, step, err := i.decide(t, state, want)
	if err != nil {
		return Result{}, err
	}
	version := t.version
	var moved, fought []Move
	if step == Keep {
		if r.Foreign {
			return r.result(step), nil // not taken over yet, so nothing of it is put right
		}
		if moved, fought, err = i.moved(t); err != nil || len(moved) == 0 {
			result := r.result(step)
			result.Fought = fought
			return result, err
		}
		step, version = Repair, r.version()
		t.description, t.fought = repairOf(moved), fought
	}
	if err := i.options.StillLeader(ctx); err != nil {
		return Result{}, fmt.Errorf("%s helm release %s: %w", step, t.name, err)
	}
	i.options.Logger.Info("changing a helm release", "release", t.name, "step", step, "version", version, "revision", r.Readable+1, "moved", Moves(moved))
	if err := i.take(ctx, t, step, r, want); err != nil {
		return r.result(step), fmt.Errorf("%s helm release %s at version %s: %w", step, t.name, version, err)
	}
	return Result{Step: step, Changed: true, Revision: r.Readable + 1, Version: version, Moved: moved, Fought: fought}, nil
}

// decide says what a release needs. Which version a revision of somebody else's has is
// in the release alone.
func (i *Installer) decide(t task, state State, want Mark) (Release, Step, error) {
	r := state.of(t.name)
	if r.Edited && (t.adopt || !r.Foreign) {
		found, err := i.readRelease(FoundRelease{Name: t.name, Namespace: t.namespace})
		if err != nil {
			return r, "", err
		}
		r.Mark.Version = label(found.Version)
	}
	step, err := Decide(r, want, t.adopt, i.options.Now())
	if err != nil || step == Install {
		return r, step, err
	}
	if r.Readable, err = i.lastReadable(t); r.Readable < r.Revision {
		step = Recover
	}
	return r, step, err
}

// moved looks whether what a release wrote still stands, and tells apart what is
// fought for.
func (i *Installer) moved(t task) (moved, fights []Move, err error) {
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return nil, nil, err
	}
	all, err := helm.moved(t)
	if err != nil {
		return nil, nil, fmt.Errorf("look whether helm release %s still stands: %w", t.name, err)
	}
	if len(all) == 0 || t.insist {
		return all, nil, nil
	}
	repaired, err := helm.repairs(t.name)
	if err != nil {
		return nil, nil, fmt.Errorf("look how often helm release %s was put right: %w", t.name, err)
	}
	for _, m := range all {
		if fought(m, repaired[m.Object], i.options.Now()) {
			fights = append(fights, m)
		} else {
			moved = append(moved, m)
		}
	}
	return moved, fights, nil
}

// take does a step. Once begun it is not interrupted: nothing in it waits, and
// half a release is worse than a late one.
func (i *Installer) take(ctx context.Context, t task, step Step, before Release, mark Mark) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	helm, err := newHelm(i.config, t.namespace, i.options.Logger)
	if err != nil {
		return err
	}
	if step == Repair {
		if t, mark, err = helm.earlier(t, before.Revision); err != nil {
			return err
		}
	}
	loaded, err := t.load()
	if err != nil {
		return err
	}
	if t.manifest, err = i.render(ctx, helm, t, loaded, before); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	labels := mark.labels(before.Readable + 1)
	switch step {
	case Install:
		return helm.install(ctx, t, loaded, labels)
	case Recover:
		if err := i.discard(ctx, t, before); err != nil {
			return err
		}
		if before.Readable == 0 {
			return helm.install(ctx, t, loaded, labels)
		}
		if err := helm.markFailed(t.name); err != nil {
			return err
		}
		return helm.upgrade(ctx, t, loaded, labels)
	case Upgrade, Adopt, Repair:
		return helm.upgrade(ctx, t, loaded, labels)
	case Keep:
	}
	return nil
}

// render makes the manifest of the next revision of a release.
func (i *Installer) render(ctx context.Context, helm *helm, t task, loaded *chart.Chart, before Release) (string, error) {
	cluster, err := helm.capabilities()
	if err != nil {
		return "", err
	}
	documents, err := render(ctx, i.options.Confine, loaded, rendering{
		release: t.name, namespace: t.namespace, revision: before.Readable + 1, upgrade: before.Readable > 0,
		values: t.values, cluster: cluster, hooks: t.earlier,
	})
	if err != nil {
		return "", err
	}
	return manifest(documents), t.permitted(documents)
}

func (s State) of(name string) Release {
	if name == CRDChart {
		return s.CRDs
	}
	return s.Controller
}
