package sandbox

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// The default names of a sandbox's cluster and region.
const (
	DefaultCluster = "sandbox"
	DefaultRegion  = "eu-west-1"
)

// Default durations: fast enough for a story, slow enough that each state is visible.
const (
	defaultLaunch   = 500 * time.Millisecond
	defaultBoot     = time.Second
	defaultShutdown = time.Second
	defaultWarning  = 3 * time.Second
	defaultResource = 100 * time.Millisecond
	defaultPodStart = 300 * time.Millisecond
	defaultDrain    = time.Second
)

// Options specify a sandbox. The zero value is an empty cluster without a Git host.
type Options struct {
	// Dir is the sandbox's folder, created if missing. Default: a temporary one that Down removes.
	Dir string
	// Source is tests/sandbox/bin of a checkout. Default: that of the checkout that contains the working directory.
	Source string
	// Cache contains built programs and prepared snapshots. Default: a folder in the user's cache folder.
	Cache string

	// Cluster is the name of the EKS cluster; Region is its region.
	Cluster, Region string
	// Kubernetes is the minor version of Kubernetes, such as 1.33, that the cluster serves, also in EKS. Default: the
	// newest that the default version of Karpenter supports.
	Kubernetes string
	// AdminGroups are groups of the cluster's administrator in addition to system:masters.
	AdminGroups []string
	// FromSnapshot starts from a prepared cluster with both charts installed, so that Karpenter runs. EC2 and IAM start
	// empty anyway.
	FromSnapshot bool
	// Beside is a running sandbox with whose AWS account and charts this one starts: another cluster of the account, which
	// needs another name. It must be stopped first.
	Beside *Sandbox
	// WithPlumbline gives a cluster beside another one a role for plumbline, as the first cluster has. Karpenter's role then
	// has only the policies of Karpenter's own guide, too.
	WithPlumbline bool
	// Bare is a cluster in which nothing was prepared for Karpenter or plumbline, also in AWS: EKS, a managed node group, and
	// the access key of an administrator. Karpenter's pods get the role that their ServiceAccount is associated with, or
	// annotated with.
	Bare bool
	// WithGit starts the Git host.
	WithGit bool
	// WithVolumes installs the EBS CSI driver.
	WithVolumes bool

	// LaunchTime is how long an instance is pending, BootTime how long a running one takes to register its Node,
	// ShutdownTime how long it takes to terminate.
	LaunchTime, BootTime, ShutdownTime time.Duration
	// WarningTime is the time between the warning and the termination of an interrupted spot instance.
	WarningTime time.Duration
	// ResourceTime is how long CloudFormation takes for each resource of a stack.
	ResourceTime time.Duration
	// PodStartTime and DrainTime are how long pods take to start and to terminate.
	PodStartTime, DrainTime time.Duration

	// Seed is the seed for the simulated AWS's random choices.
	Seed uint64

	// Logger logs everything; Progress gets a line for each build. Both are optional.
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
	o.Kubernetes = o.kubernetes()
	o.LaunchTime = cmp.Or(o.LaunchTime, defaultLaunch)
	o.BootTime = cmp.Or(o.BootTime, defaultBoot)
	o.ShutdownTime = cmp.Or(o.ShutdownTime, defaultShutdown)
	o.WarningTime = cmp.Or(o.WarningTime, defaultWarning)
	o.ResourceTime = cmp.Or(o.ResourceTime, defaultResource)
	o.PodStartTime = cmp.Or(o.PodStartTime, defaultPodStart)
	o.DrainTime = cmp.Or(o.DrainTime, defaultDrain)
	return o, nil
}

// folder creates the sandbox's folder, and reports whether it is a temporary one.
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

// kubernetes returns the minor version of Kubernetes that the cluster serves.
func (o Options) kubernetes() string { return cmp.Or(o.Kubernetes, binaries.DefaultKubernetes()) }

// Programs returns the programs that a sandbox with these options runs.
func (o Options) Programs() []binaries.Name {
	names := binaries.Of(o.kubernetes())
	if !o.WithGit {
		names = slices.DeleteFunc(names, func(name binaries.Name) bool { return name == binaries.Gitea })
	}
	return names
}
