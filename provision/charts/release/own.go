package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/go-logr/logr"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/rest"
)

// OwnRelease is the name of plumbline's own chart and of its release.
const OwnRelease = "plumbline"

// Own is plumbline's own chart, as a user installs it. It is part of the program and trusted, unlike Karpenter's: Helm
// renders it.
type Own struct {
	// Files are those of the chart.
	Files fs.FS
	// Version is that of the program, which the chart and the image get; "dev" leaves the chart's own. The chart of a build
	// between releases, whose version is a commit, keeps its own version: Helm accepts only semantic versions.
	Version   string
	Namespace string
	// Values are those that differ from the chart's.
	Values map[string]any
	Now    func() time.Time
}

// OwnState is the release of plumbline's own chart.
type OwnState struct {
	// Version is that of the image that it installs; empty if there is no release. Status is Helm's: deployed, …
	Version, Status string
}

// Installed reports whether a release is complete.
func (s OwnState) Installed() bool { return s.Status == string(helmrelease.StatusDeployed) }

// ownTimeout is how long the Deployment of the chart may take to become available.
const ownTimeout = 5 * time.Minute

// State returns the release in the cluster.
func (o Own) State(config *rest.Config) (OwnState, error) {
	configuration, err := o.configuration(config)
	if err != nil {
		return OwnState{}, err
	}
	last, err := configuration.Releases.Last(OwnRelease)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return OwnState{}, nil
	case err != nil:
		return OwnState{}, fmt.Errorf("read Helm release %s: %w", OwnRelease, err)
	}
	state := OwnState{Status: string(last.Info.Status)}
	if last.Chart != nil && last.Chart.Metadata != nil {
		state.Version = last.Chart.Metadata.AppVersion
	}
	return state, nil
}

// Wanted returns the version of the image that the chart installs.
func (o Own) Wanted() (string, error) {
	loaded, err := o.load()
	if err != nil {
		return "", err
	}
	return loaded.Metadata.AppVersion, nil
}

// Install installs or upgrades the release, and waits until its Deployment is available. A revision that another run left
// unfinished is marked as failed first, once that run would have given up. Errors: *BusyError until then.
func (o Own) Install(ctx context.Context, config *rest.Config) error {
	loaded, err := o.load()
	if err != nil {
		return err
	}
	configuration, err := o.configuration(config)
	if err != nil {
		return err
	}
	last, err := configuration.Releases.Last(OwnRelease)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace, install.CreateNamespace = OwnRelease, o.Namespace, true
		install.Wait, install.Timeout = true, ownTimeout
		install.TakeOwnership = true // CRDs of an earlier release stay when it is uninstalled
		_, err = install.RunWithContext(ctx, loaded, o.Values)
		return o.busy(1, err)
	}
	if err != nil {
		return fmt.Errorf("read Helm release %s: %w", OwnRelease, err)
	}
	if until := last.Info.LastDeployed.Time.Add(ownTimeout); last.Info.Status.IsPending() && o.Now().Before(until) {
		return &BusyError{Release: OwnRelease, Revision: last.Version, Until: until}
	}
	if last.Info.Status.IsPending() {
		last.SetStatus(helmrelease.StatusFailed, "interrupted: marked as failed by plumbline bootstrap")
		if err := configuration.Releases.Update(last); err != nil {
			return fmt.Errorf("mark revision %d of Helm release %s as failed: %w", last.Version, OwnRelease, err)
		}
	}
	upgrade := action.NewUpgrade(configuration)
	upgrade.Namespace, upgrade.MaxHistory = o.Namespace, maxHistory
	upgrade.Wait, upgrade.Timeout = true, ownTimeout
	upgrade.TakeOwnership = true
	upgrade.ResetThenReuseValues = true
	_, err = upgrade.RunWithContext(ctx, OwnRelease, loaded, o.Values)
	return o.busy(last.Version+1, err)
}

// busy gives its type to the error of a run that another has overtaken: that has created the revision since the release was
// read.
func (o Own) busy(revision int, err error) error {
	if errors.Is(err, driver.ErrReleaseExists) || err != nil && strings.Contains(err.Error(), "another operation (install/upgrade/rollback) is in progress") {
		return &BusyError{Release: OwnRelease, Revision: revision, Until: o.Now().Add(ownTimeout)}
	}
	return err
}

func (o Own) configuration(config *rest.Config) (*action.Configuration, error) {
	configuration := new(action.Configuration)
	log := func(format string, _ ...any) { logr.Discard().Info(format) }
	if err := configuration.Init(newGetter(config, o.Namespace), o.Namespace, "secret", log); err != nil {
		return nil, fmt.Errorf("set up Helm: %w", err)
	}
	return configuration, nil
}

// load returns the chart, with the version of the program.
func (o Own) load() (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(o.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(o.Files, path)
		files = append(files, &loader.BufferedFile{Name: path, Data: text})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read plumbline's chart: %w", err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("read plumbline's chart: %w", err)
	}
	if o.Version != "" && o.Version != "dev" {
		loaded.Metadata.AppVersion = o.Version
		if version, err := semver.StrictNewVersion(strings.TrimPrefix(o.Version, "v")); err == nil {
			loaded.Metadata.Version = version.String()
		}
	}
	if err := loaded.Metadata.Validate(); err != nil {
		return nil, fmt.Errorf("plumbline's chart at version %s: %w", o.Version, err)
	}
	return loaded, nil
}
