package sandbox

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// The names of a sandbox's cluster and region unless Options say otherwise.
const (
	DefaultCluster = "sandbox"
	DefaultRegion  = "eu-west-1"
)

// How fast things happen unless Options say otherwise: fast enough for a
// story, slow enough that each state can be seen.
const (
	defaultLaunch   = 500 * time.Millisecond
	defaultBoot     = time.Second
	defaultShutdown = time.Second
	defaultWarning  = 3 * time.Second
	defaultPodStart = 300 * time.Millisecond
	defaultDrain    = time.Second
)

// Options say what a sandbox is to be. The zero value is a bare cluster
// without a Git host.
type Options struct {
	// Dir is the sandbox's folder, made if need be. Default: a temporary one
	// that Down removes.
	Dir string
	// Source is tests/sandbox/bin of a checkout. Default: of the one that the
	// working directory lies in.
	Source string
	// Cache keeps built programs and prepared snapshots. Default: a folder in
	// the user's cache folder.
	Cache string

	// Cluster is the name of the EKS cluster; Region is where it is.
	Cluster, Region string
	// EmulatedVersion is the minor version of Kubernetes, such as 1.33, that the
	// cluster plays, in EKS too. Default: that of the control plane's programs.
	EmulatedVersion string
	// AdminGroups are groups of the cluster's administrator beside system:masters.
	AdminGroups []string
	// FromSnapshot starts from a prepared cluster that has both charts
	// installed, so that Karpenter runs. EC2 and IAM start empty all the same.
	FromSnapshot bool
	// WithGit starts the Git host.
	WithGit bool
	// WithVolumes installs the EBS CSI driver.
	WithVolumes bool

	// LaunchTime is how long an instance is pending, BootTime how long a
	// running one takes to register its Node, ShutdownTime how long it takes
	// to end.
	LaunchTime, BootTime, ShutdownTime time.Duration
	// WarningTime is how long a spot instance that is interrupted has from its
	// warning to its end.
	WarningTime time.Duration
	// PodStartTime and DrainTime are how long pods take to run and to end.
	PodStartTime, DrainTime time.Duration

	// Seed is that of what the simulated AWS draws by chance.
	Seed uint64

	// Logger hears of everything; Progress gets a line for each build. Both
	// are optional.
	Logger   *slog.Logger
	Progress io.Writer
}

func (o Options) withDefaults() (Options, error) {
	var err error
	if o.Source == "" {
		if o.Source, err = binaries.FindSource("."); err != nil {
			return o, err
		}
	}
	if o.Cache == "" {
		if o.Cache, err = binaries.DefaultCache(); err != nil {
			return o, err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Cluster = cmp.Or(o.Cluster, DefaultCluster)
	o.Region = cmp.Or(o.Region, DefaultRegion)
	o.LaunchTime = cmp.Or(o.LaunchTime, defaultLaunch)
	o.BootTime = cmp.Or(o.BootTime, defaultBoot)
	o.ShutdownTime = cmp.Or(o.ShutdownTime, defaultShutdown)
	o.WarningTime = cmp.Or(o.WarningTime, defaultWarning)
	o.PodStartTime = cmp.Or(o.PodStartTime, defaultPodStart)
	o.DrainTime = cmp.Or(o.DrainTime, defaultDrain)
	return o, nil
}

// folder makes the sandbox's folder, and reports whether it is a temporary one.
func (o Options) folder() (dir string, temporary bool, err error) {
	if o.Dir == "" {
		dir, err = os.MkdirTemp("", "plumbline-sandbox-")
		return dir, true, err
	}
	dir, err = filepath.Abs(o.Dir)
	if err != nil {
		return "", false, err
	}
	return dir, false, os.MkdirAll(dir, 0o700)
}

// Programs are the programs that a sandbox with these options runs.
func (o Options) Programs() []binaries.Name {
	names := []binaries.Name{binaries.Kubernetes, binaries.Kwok, binaries.Karpenter, binaries.Helm}
	if o.WithGit {
		names = append(names, binaries.Gitea)
	}
	return names
}
