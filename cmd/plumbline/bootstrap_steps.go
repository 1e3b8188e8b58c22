package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/manifests"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// bootstrapStep is one step after the stack.
type bootstrapStep struct {
	title string
	// plan is what it would do; empty if there is nothing to do.
	plan string
	act  func(ctx context.Context) error
}

// pendingOf returns the steps that have something to do.
func pendingOf(steps []bootstrapStep) []bootstrapStep {
	var pending []bootstrapStep
	for _, step := range steps {
		if step.plan != "" {
			pending = append(pending, step)
		}
	}
	return pending
}

// clusterSteps reads the cluster, and returns the steps after the stack in their order. It changes nothing.
func (b *bootstrapCommand) clusterSteps(ctx context.Context, spec bootstrap.Spec, facts bootstrap.Facts) ([]bootstrapStep, error) {
	c, err := b.clusterOf(ctx, facts.Cluster)
	if err != nil {
		return nil, err
	}
	var steps []bootstrapStep
	tags := func(ctx context.Context, _ *clusterAccess, spec bootstrap.Spec) (bootstrapStep, error) {
		return b.tagStep(ctx, facts.Cluster, spec)
	}
	for _, plan := range []func(context.Context, *clusterAccess, bootstrap.Spec) (bootstrapStep, error){
		tags, b.spotStep, b.authStep, b.chartStep, b.secretStep, b.nodeSyncStep,
	} {
		step, err := plan(ctx, c, spec)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	return steps, nil
}

func (b *bootstrapCommand) clusterOf(ctx context.Context, is cloud.Cluster) (*clusterAccess, error) {
	return connectTo(ctx, b.kubeconfig, is)
}

// connectTo connects to the cluster of the kubeconfig, and checks that it is an EKS cluster.
func connectTo(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, is cloud.Cluster) (*clusterAccess, error) {
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}
	if _, err := c.kubernetes(); err != nil {
		hint := ""
		if is.PrivateEndpoint {
			hint = "; the cluster has a private endpoint, which is reached from its VPC only: run the command there"
		}
		return nil, fmt.Errorf("%w%s", err, hint)
	}
	authority, err := certificateAuthority(c.config)
	if err != nil {
		return nil, err
	}
	if verdict := cloud.Verify(is, authority, nil, nil); verdict.Reason == cloud.ReasonAuthorityDiffers {
		return nil, errors.New(verdict.Message)
	}
	return c, nil
}

// spotStep creates the account's service-linked role for spot instances.
func (b *bootstrapCommand) spotStep(ctx context.Context, _ *clusterAccess, _ bootstrap.Spec) (bootstrapStep, error) {
	step := bootstrapStep{title: "spot instances"}
	exists, err := b.aws.HasRole(ctx, cloud.SpotRole)
	if err != nil || exists {
		return step, err
	}
	step.plan = "create the account's service-linked role " + cloud.SpotRole + ", without which EC2 launches none; --undo keeps it"
	step.act = func(ctx context.Context) error {
		_, err := b.aws.CreateSpotRole(ctx)
		return err
	}
	return step, nil
}

const (
	authName   = "aws-auth"
	authBackup = "aws-auth-before-plumbline"
	mapRoles   = "mapRoles"
)

// authStep lets nodes join a cluster without access entries: an entry in aws-auth.
func (b *bootstrapCommand) authStep(ctx context.Context, c *clusterAccess, spec bootstrap.Spec) (bootstrapStep, error) {
	step := bootstrapStep{title: "ConfigMap kube-system/" + authName}
	if !spec.AuthMap {
		return step, nil
	}
	auth, merged, err := mergedAuth(ctx, c, spec.NodeRoleARN())
	if err != nil || merged == auth.Data[mapRoles] {
		return step, err
	}
	step.plan = "back it up as " + authBackup + ", and add to " + mapRoles + ":\n" + strings.TrimSpace(bootstrap.AuthEntry(spec.NodeRoleARN()))
	step.act = func(ctx context.Context) error {
		auth, merged, err := mergedAuth(ctx, c, spec.NodeRoleARN())
		if err != nil {
			return err
		}
		return writeAuth(ctx, c, auth, merged)
	}
	return step, nil
}

// explained is explain for a request that may have succeeded.
func explained(err error, doing string) error {
	if err == nil {
		return nil
	}
	return explain(err, doing)
}

// mergedAuth returns aws-auth, and its mapRoles with the entry for nodes. Errors: it is malformed, or another tool reverts
// changes.
func mergedAuth(ctx context.Context, c client.Client, roleARN string) (*corev1.ConfigMap, string, error) {
	auth := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: authName}}
	if err := client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(auth), auth)); err != nil {
		return nil, "", explain(err, "read ConfigMap kube-system/"+authName)
	}
	merged, err := bootstrap.MergeAuth(auth.Data[mapRoles], roleARN)
	if err != nil || merged == auth.Data[mapRoles] {
		return auth, merged, err
	}
	if found := owners.All(auth); len(found) > 0 {
		return nil, "", fmt.Errorf("ConfigMap kube-system/%s is not changed, because another tool applies it (%s): "+
			"add this to its %s there, and run this command again\n%s",
			authName, found[0], mapRoles, bootstrap.AuthEntry(roleARN))
	}
	return auth, merged, nil
}

// writeAuth writes mapRoles, after a backup. The write fails if aws-auth has changed since it was read.
func writeAuth(ctx context.Context, c client.Client, auth *corev1.ConfigMap, roles string) error {
	if auth.ResourceVersion == "" {
		auth.Data = map[string]string{mapRoles: roles}
		return explained(c.Create(ctx, auth), "create ConfigMap kube-system/"+authName)
	}
	backup := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: auth.Namespace, Name: authBackup}, Data: auth.Data}
	if err := c.Create(ctx, backup); err != nil && !apierrors.IsAlreadyExists(err) {
		return explain(err, "back up ConfigMap kube-system/"+authName)
	}
	changed := auth.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string]string{}
	}
	changed.Data[mapRoles] = roles
	return explained(c.Update(ctx, changed), "write ConfigMap kube-system/"+authName)
}

// releaseImage is the repository of the image of releases.
const releaseImage = "ghcr.io/plumbline-dev/plumbline"

// chartStep installs plumbline, or upgrades it to the version of this program.
func (b *bootstrapCommand) chartStep(ctx context.Context, c *clusterAccess, spec bootstrap.Spec) (bootstrapStep, error) {
	step := bootstrapStep{title: "plumbline"}
	files, err := fs.Sub(manifests.Chart, "chart")
	if err != nil {
		return step, err
	}
	own := release.Own{Files: files, Version: version, Namespace: b.namespace, Values: b.chartValues(spec), Now: time.Now}
	state, err := own.State(c.config)
	if err != nil {
		return step, explain(err, "read the Helm releases in "+b.namespace)
	}
	wanted, err := own.Wanted()
	if err != nil {
		return step, err
	}
	if state.Status == "" && len(c.daemons(ctx)) > 0 {
		return step, nil // kubectl, Flux or Argo CD has installed it, and keeps it
	}
	image := b.imageRepository()
	if step.plan, err = b.planOfChart(state, image, wanted); err != nil || step.plan == "" {
		return step, err
	}
	if image != "" {
		own.Values["image"] = map[string]any{"repository": image}
	}
	step.act = func(ctx context.Context) error {
		if err := b.installChart(ctx, c, own, wanted); err != nil {
			return err
		}
		return restrict(ctx, c, b.namespace)
	}
	return step, nil
}

// installChart installs plumbline's chart, unless another run does meanwhile.
func (b *bootstrapCommand) installChart(ctx context.Context, c *clusterAccess, own release.Own, wanted string) error {
	for said := false; ; said = true {
		state, err := own.State(c.config)
		if err != nil {
			return explain(err, "read the Helm releases in "+b.namespace)
		}
		if state.Installed() && state.Version == wanted {
			return nil
		}
		err = own.Install(ctx, c.config)
		var busy *release.BusyError
		if !errors.As(err, &busy) {
			return explained(err, "install plumbline's chart in "+b.namespace)
		}
		if !said {
			b.say("another run installs plumbline's chart, or was interrupted; waiting for it until " + busy.Until.Format(time.TimeOnly))
		}
		if err := b.pause(ctx, stackPoll); err != nil {
			return err
		}
	}
}

// imageRepository returns that of plumbline's image; empty if this build has no published one.
func (b *bootstrapCommand) imageRepository() string {
	if b.image == "" && strings.HasPrefix(version, "v") {
		return releaseImage
	}
	return b.image
}

// planOfChart returns what is done about plumbline's chart; empty if it is installed. Errors: the image is unknown.
func (b *bootstrapCommand) planOfChart(state release.OwnState, image, wanted string) (string, error) {
	switch {
	case state.Installed() && (state.Version == wanted || !b.upgrade):
		return "", nil
	case image == "" && state.Status == "":
		return "", fmt.Errorf("this build (%s) has no published image: give the repository of one with --image", version)
	case state.Status == "":
		return fmt.Sprintf("install its chart in namespace %s, with the image %s:%s", b.namespace, image, wanted), nil
	}
	return fmt.Sprintf("upgrade its chart in namespace %s from %s (%s) to %s", b.namespace, state.Version, state.Status, wanted), nil
}

// chartValues are those that the way to get credentials needs.
func (b *bootstrapCommand) chartValues(spec bootstrap.Spec) map[string]any {
	if spec.Auth != bootstrap.IRSA {
		return map[string]any{}
	}
	return map[string]any{
		"serviceAccount": map[string]any{"annotations": map[string]any{cloud.RoleAnnotation: spec.RoleARN(bootstrap.PlumblineRole)}},
		"charts":         map[string]any{"controllerRoles": []any{spec.RoleARN(bootstrap.ControllerRole)}},
	}
}

// restrict labels the namespace, so that the API server refuses Pods with more privileges than plumbline's.
func restrict(ctx context.Context, c client.Client, name string) error {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); err != nil {
		return explain(err, "read namespace "+name)
	}
	before := namespace.DeepCopy()
	if namespace.Labels == nil {
		namespace.Labels = map[string]string{}
	}
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	return explained(c.Patch(ctx, namespace, client.MergeFrom(before)), "label namespace "+name)
}

// nodeSyncName returns the name of the NodeSync: the cluster's, in the characters of an object's name.
func (b *bootstrapCommand) nodeSyncName() string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(b.cluster), "-"), "-")
	return strings.TrimRight(name[:min(len(name), 52)], "-")
}

// secretName returns the name of the Secret for the repository.
func (b *bootstrapCommand) secretName() string {
	if b.secret != "" {
		return b.secret
	}
	return b.nodeSyncName() + "-git"
}

// secretStep creates the Secret with the credentials for the repository, which the user types.
func (b *bootstrapCommand) secretStep(ctx context.Context, c *clusterAccess, _ bootstrap.Spec) (bootstrapStep, error) {
	step := bootstrapStep{title: "Secret " + b.namespace + "/" + b.secretName()}
	if b.url == "" {
		return step, nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: b.secretName()}}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	at, parsed := url.Parse(b.url)
	switch {
	case parsed == nil && hasPassword(at):
		return step, fmt.Errorf("--git %s has a password, which everyone who can read the NodeSync would see: "+
			"leave it out, and the command asks for it", at.Redacted())
	case parsed != nil:
		return step, errors.New("--git is no URL: for ssh, write ssh://git@HOST/PATH instead of git@HOST:PATH")
	case err == nil:
		return step, nil
	case !apierrors.IsNotFound(err):
		return step, explain(err, "read Secret "+b.secretName())
	case b.secret != "":
		return step, fmt.Errorf("secret %s does not exist in namespace %s: create it there, or leave out --secret to be asked for the credentials",
			b.secret, b.namespace)
	case at.Scheme != "https" || at.User != nil:
		return step, fmt.Errorf("--git %s: the command asks for credentials for an https URL without a user only; "+
			"for another one, create a Secret in namespace %s with the keys and the annotation %s of docs/how-to/bootstrap.md, and name it with --secret",
			at.Redacted(), b.namespace, v1alpha1.HostsAnnotation)
	case terminalOf(b.cmd) == nil:
		return step, errors.New("the input is no terminal to ask for the repository's credentials: create a Secret, and name it with --secret")
	}
	step.plan = "ask for a user and a token that reads " + b.url + ", which only " + at.Hostname() + " may receive"
	step.act = func(ctx context.Context) error { return b.createSecret(ctx, c, secret, at.Hostname()) }
	return step, nil
}

// typedSecret reads a line that is not echoed. If ctx ends, it restores the terminal and returns.
func typedSecret(ctx context.Context, terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	type line struct {
		text []byte
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(terminal)
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		return l.text, l.err
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
}

func hasPassword(at *url.URL) bool {
	if at.User == nil {
		return false
	}
	_, has := at.User.Password()
	return has
}

// createSecret asks for credentials, and stores them. The token is not echoed.
func (b *bootstrapCommand) createSecret(ctx context.Context, c client.Client, secret *corev1.Secret, host string) error {
	terminal := terminalOf(b.cmd)
	user := typedLine(ctx, b.cmd, terminal, "user of "+b.url+": ")
	fmt.Fprint(b.cmd.ErrOrStderr(), "token (not shown): ")
	token, err := typedSecret(ctx, int(terminal.Fd()))
	fmt.Fprintln(b.cmd.ErrOrStderr())
	switch {
	case err != nil:
		return fmt.Errorf("read the token: %w", err)
	case ctx.Err() != nil:
		return ctx.Err()
	case user == "" || len(token) == 0:
		return errors.New("no user or no token was typed: run the command again")
	}
	secret.Annotations = map[string]string{v1alpha1.HostsAnnotation: host}
	secret.StringData = map[string]string{"username": user, "password": string(token)}
	return explained(c.Create(ctx, secret), "create Secret "+secret.Name)
}

// nodeSyncStep creates the NodeSync. One that exists is never changed.
func (b *bootstrapCommand) nodeSyncStep(ctx context.Context, c *clusterAccess, _ bootstrap.Spec) (bootstrapStep, error) {
	name := b.nodeSyncName()
	step := bootstrapStep{title: "NodeSync " + b.namespace + "/" + name}
	if b.url == "" {
		return step, nil
	}
	want := b.newNodeSync(name)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
	switch {
	case err == nil:
		follows, _, _ := unstructured.NestedString(live.Object, "spec", "source", "git", "url") // absent for another source
		folder, _, _ := unstructured.NestedString(live.Object, "spec", "path")
		if follows != b.url || cleaned(folder) != cleaned(b.path) {
			return step, fmt.Errorf("nodesync/%s exists, and follows %s in %s: it is not changed; "+
				"change it with kubectl, or give its --git and --path",
				name, orNone(folder), orNone(follows))
		}
		return step, b.differs(live)
	case !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err):
		return step, explain(err, "read NodeSync "+name)
	}
	text, err := yaml.Marshal(want.Object["spec"])
	if err != nil {
		return step, err
	}
	step.plan = "create it:\n" + strings.TrimSpace(string(text))
	step.act = func(ctx context.Context) error { return b.createNodeSync(ctx, c, want) }
	return step, nil
}

// differs returns an error if a flag that was given differs from the NodeSync that exists.
func (b *bootstrapCommand) differs(live *unstructured.Unstructured) error {
	for flag, is := range map[string]struct {
		wanted string
		path   []string
	}{
		"branch": {b.branch, []string{"spec", "source", "git", "ref", "branch"}}, "secret": {b.secret, []string{"spec", "source", "git", "secretRef", "name"}},
	} {
		has, _, _ := unstructured.NestedString(live.Object, is.path...) // absent without one
		if b.cmd.Flags().Changed(flag) && has != is.wanted {
			return fmt.Errorf("nodesync/%s exists, and has %s instead of %s: it is not changed; change it with kubectl, or leave out --%s",
				live.GetName(), orNone(has), is.wanted, flag)
		}
	}
	allowed, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "charts", "allow", "repositories") // absent for the default
	if b.charts != "" && !slices.Contains(allowed, b.charts) {
		return fmt.Errorf("nodesync/%s exists, and does not allow charts from %s: it is not changed; change it with kubectl, or leave out --charts", live.GetName(), b.charts)
	}
	return nil
}

// cleaned is a folder in the repository, in one form.
func cleaned(folder string) string { return path.Clean("/" + folder) }

// createNodeSync creates a NodeSync. It waits for the API server to serve the kind: the CRD may be a moment old.
func (b *bootstrapCommand) createNodeSync(ctx context.Context, c client.Client, want *unstructured.Unstructured) error {
	for tries := 0; ; tries++ {
		err := c.Create(ctx, want.DeepCopy())
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		if !apimeta.IsNoMatchError(err) && !apierrors.IsNotFound(err) || tries >= 10 {
			return explain(err, "create NodeSync "+want.GetName())
		}
		if err := b.pause(ctx, stackPoll); err != nil {
			return err
		}
	}
}

func (b *bootstrapCommand) newNodeSync(name string) *unstructured.Unstructured {
	spec := map[string]any{
		"source": map[string]any{"git": map[string]any{
			"url": b.url, "ref": map[string]any{"branch": b.branch}, "secretRef": map[string]any{"name": b.secretName()},
		}},
		"path": b.path,
	}
	if b.charts != "" {
		spec["charts"] = map[string]any{"allow": map[string]any{"repositories": []any{b.charts}}}
	}
	sync := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	sync.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("NodeSync"))
	sync.SetNamespace(b.namespace)
	sync.SetName(name)
	return sync
}

// applySteps runs the steps, then the checks.
func (b *bootstrapCommand) applySteps(ctx context.Context, spec bootstrap.Spec, steps []bootstrapStep) error {
	for _, step := range pendingOf(steps) {
		b.say(step.title)
		if err := step.act(ctx); err != nil {
			if ctx.Err() != nil {
				return &exitError{code: exitFailed, message: "plumbline: stopped; run the same command again to continue"}
			}
			return err
		}
	}
	return b.check(ctx, spec)
}
