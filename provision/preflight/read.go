package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
	"github.com/plumbline-dev/plumbline/provision/leftover"
)

// AWS is what Read queries in AWS.
type AWS interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Grant(ctx context.Context, cluster string, account cloud.ServiceAccount) (cloud.Grant, error)
	Simulate(ctx context.Context, roleARN string, questions []cloud.Simulation) ([]cloud.Simulated, error)
	Addons(ctx context.Context, cluster string) ([]cloud.Addon, error)
	NodeRole(ctx context.Context, name string) (cloud.Role, error)
	ProfileRoles(ctx context.Context, name string) ([]string, error)
	AccessEntry(ctx context.Context, cluster, roleARN string) (*cloud.AccessEntry, error)
	Queue(ctx context.Context, name string) (cloud.Queue, error)
	Rules(ctx context.Context, targetARN string) ([]cloud.Rule, error)
	Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error)
	SubnetsByID(ctx context.Context, ids []string) (map[string]cloud.Subnet, error)
	SecurityGroupsByID(ctx context.Context, ids []string) (map[string]cloud.SecurityGroup, error)
	AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error)
	Refused(ctx context.Context, message string) (*cloud.Refusal, error)
	Catalog(ctx context.Context) (*offers.Catalog, error)
	Fleet(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
	LeftBehind(ctx context.Context, cluster string, profiles bool) ([]cloud.Answer, error)
	Volumes(ctx context.Context, cluster string) cloud.Answer
	Endpoints(ctx context.Context, vpcs []string) ([]cloud.Endpoint, error)
	Key(ctx context.Context, id string) (cloud.Key, error)
	Quotas(ctx context.Context) (map[string]cloud.Quota, error)
	TypesInUse(ctx context.Context) (map[cloud.TypeInUse]int, error)
	Insights(ctx context.Context, cluster string) ([]cloud.Insight, error)
}

// Reader reads a cluster and its AWS account. It only reads.
type Reader struct {
	AWS AWS
	// API is the cluster's API server. ControllerLabels are those of Deployments of Karpenter's controller.
	API              client.Reader
	ControllerLabels map[string]string
	// PlumblineLabels are those of pods of plumbline's daemon.
	PlumblineLabels map[string]string
	// Drains reports whether a pod is evicted when its node is drained, and Undisrupted whether its annotation forbids that
	// at a time: Karpenter's rules.
	Drains      func(*corev1.Pod) bool
	Undisrupted func(pod *corev1.Pod, at time.Time) bool
	// Allowed returns what the disruption budgets of a NodePool with this many nodes allow, for a reason. NodeDaemonSets
	// returns those of CSI drivers and CNI plugins, given the names of the drivers.
	Allowed        func(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason, now time.Time) (Allowed, error)
	NodeDaemonSets func(all []appsv1.DaemonSet, drivers []string) []NodeDaemonSet
	// Idle returns why no pod of Karpenter's controller in a namespace works; empty if one does.
	Idle func(ctx context.Context, api client.Reader, namespace string, now time.Time) (string, error)
	// Volumes returns what uses EBS volumes in the cluster, by their ID.
	Volumes func(ctx context.Context) (map[string]leftover.Volume, error)
	// KarpenterCRDs returns those of a version. An error means that they are not available, for example in a registry.
	KarpenterCRDs func(ctx context.Context, version string) ([]*apiextensionsv1.CustomResourceDefinition, error)
	// Wait returns at a time, or when the context is done: queries for selectors have a budget, which leaves Karpenter enough
	// of EC2's. If nil, what exceeds it is unknown.
	Wait func(ctx context.Context, until time.Time) error
}

// source is a group of values in Observed that are read together.
type source string

const (
	ofAccount     source = "account"
	ofControllers source = "controllers"
	ofGrant       source = "grant"
	ofSimulation  source = "simulation"
	ofVolumeKeys  source = "volume keys"
	ofAgent       source = "agent"
	ofClasses     source = "classes"
	ofNodeRoles   source = "node roles"
	ofQueue       source = "queue"
	ofNetwork     source = "network"
	ofPlacement   source = "placement"
	ofOthers      source = "other controllers"
	ofPods        source = "pods"
	ofPools       source = "pools"
	ofBudgets     source = "budgets"
	ofImages      source = "images"
	ofConditions  source = "conditions"
	ofDaemonSets  source = "daemonsets"
	ofAddons      source = "addons"
	ofLeft        source = "left"
	ofTypes       source = "types"
	ofQuotas      source = "quotas"
	ofClaims      source = "claims"
	ofWork        source = "work"
	ofInsights    source = "insights"
)

// read is how a source is read; it may use the sources before it in reads.
type read struct {
	source source
	do     func(r *Reader, ctx context.Context, o *Observed)
}

var reads = []read{
	{ofAccount, (*Reader).account},
	{ofControllers, (*Reader).controllers},
	{ofClasses, (*Reader).classes},
	{ofPools, (*Reader).pools},
	{ofClaims, (*Reader).claims},
	{ofAddons, (*Reader).addons},
	{ofGrant, (*Reader).grant},
	{ofAgent, (*Reader).agent},
	{ofNodeRoles, (*Reader).nodeRoles},
	{ofSimulation, (*Reader).simulation},
	{ofVolumeKeys, (*Reader).volumeKeys},
	{ofQueue, (*Reader).queue},
	{ofNetwork, (*Reader).network},
	{ofPlacement, (*Reader).placement},
	{ofOthers, (*Reader).others},
	{ofPods, (*Reader).pods},
	{ofBudgets, (*Reader).budgets},
	{ofImages, (*Reader).images},
	{ofConditions, (*Reader).conditions},
	{ofDaemonSets, (*Reader).daemonSets},
	{ofLeft, (*Reader).left},
	{ofTypes, (*Reader).types},
	{ofQuotas, (*Reader).quotas},
	{ofWork, (*Reader).working},
	{ofInsights, (*Reader).insights},
}

// Read reads what the checks need, into the Observed that has the names of the cluster. Without a version, it is that of the
// controller. It stops if the context is done.
func (r *Reader) Read(ctx context.Context, checks []Check, o Observed) Observed {
	for _, one := range reads {
		needed := slices.ContainsFunc(checks, func(c Check) bool { return slices.Contains(c.needs, one.source) })
		if needed && ctx.Err() == nil {
			one.do(r, ctx, &o)
		}
	}
	return o
}

func (r *Reader) account(ctx context.Context, o *Observed) {
	o.Identity.Of, o.Identity.Err = r.AWS.Identity(ctx)
	o.EKS.Of, o.EKS.Err = r.AWS.Cluster(ctx, o.Cluster)
}

// again repeats a query once the budget of queries allows it.
func again[T any](ctx context.Context, r *Reader, query func() (T, error)) (T, error) {
	for {
		got, err := query()
		var busy *resolve.BusyError
		if !errors.As(err, &busy) || r.Wait == nil {
			return got, err
		}
		if err := r.Wait(ctx, busy.Again); err != nil {
			return got, err
		}
	}
}

// Controllers returns the Deployments of Karpenter's controller, in every namespace, by namespace and name, with the roles of
// their ServiceAccounts. Errors: those of the API server.
func Controllers(ctx context.Context, api client.Reader, labels map[string]string) ([]Controller, error) {
	list := &appsv1.DeploymentList{}
	if err := api.List(ctx, list, client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("list Karpenter's Deployments: %w", err)
	}
	var all []Controller
	for i := range list.Items {
		d := &list.Items[i]
		c := controllerOf(d)
		account := &corev1.ServiceAccount{}
		err := api.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.ServiceAccount}, account)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read serviceaccount/%s of %s: %w", c.ServiceAccount, c.Namespace, err)
		}
		c.RoleARN = account.Annotations[cloud.RoleAnnotation]
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b Controller) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// controllerContainer is the name of the controller's container in the chart.
const controllerContainer = "controller"

func controllerOf(d *appsv1.Deployment) Controller {
	c := Controller{
		Namespace: d.Namespace, Name: d.Name, Replicas: 1, Environment: map[string]string{},
		ServiceAccount: cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default"),
	}
	if d.Spec.Replicas != nil {
		c.Replicas = *d.Spec.Replicas
	}
	containers := d.Spec.Template.Spec.Containers
	if len(containers) == 0 {
		return c
	}
	// A value of the chart can rename it; it is the first one then.
	container := containers[max(slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == controllerContainer }), 0)]
	image, _, _ := strings.Cut(container.Image, "@")
	_, c.Version, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	for _, variable := range container.Env {
		c.Environment[variable.Name] = variable.Value
	}
	return c
}

func (r *Reader) controllers(ctx context.Context, o *Observed) {
	o.Controllers.Of, o.Controllers.Err = Controllers(ctx, r.API, r.ControllerLabels)
	if c, found := o.controller(); found && o.Version == "" {
		o.Version = c.Version
	}
}

// errNoController means that there is no Deployment of Karpenter's controller.
var errNoController = errors.New("the cluster has no Deployment of Karpenter's controller")

func (r *Reader) grant(ctx context.Context, o *Observed) {
	c, found := o.controller()
	switch {
	case o.Controllers.Err != nil:
		o.Grant.Err = o.Controllers.Err
	case !found:
		o.Grant.Err = errNoController
	default:
		account := cloud.ServiceAccount{Namespace: c.Namespace, Name: c.ServiceAccount, RoleARN: c.RoleARN}
		o.Grant.Of, o.Grant.Err = r.AWS.Grant(ctx, o.Cluster, account)
	}
}

// agent finds the agent of EKS Pod Identity: as an add-on or, installed in another way, by the name of its DaemonSet.
func (r *Reader) agent(ctx context.Context, o *Observed) {
	if o.Grant.Of.Association == nil {
		return // it is not needed
	}
	if o.Addons.Of == nil && o.Addons.Err == nil {
		r.addons(ctx, o)
	}
	o.Agent.Of = slices.ContainsFunc(o.Addons.Of, func(a cloud.Addon) bool { return a.Name == cloud.PodIdentityAgent })
	if o.Agent.Of {
		return
	}
	sets := &appsv1.DaemonSetList{}
	if err := r.API.List(ctx, sets); err != nil {
		o.Agent.Err = errors.Join(o.Addons.Err, fmt.Errorf("list DaemonSets: %w", err))
		return
	}
	o.Agent.Of = slices.ContainsFunc(sets.Items, func(d appsv1.DaemonSet) bool { return strings.Contains(d.Name, cloud.PodIdentityAgent) })
	if !o.Agent.Of {
		o.Agent.Err = o.Addons.Err
	}
}

func (r *Reader) addons(ctx context.Context, o *Observed) {
	o.Addons.Of, o.Addons.Err = r.AWS.Addons(ctx, o.Cluster)
}

func (r *Reader) insights(ctx context.Context, o *Observed) {
	o.Insights.Of, o.Insights.Err = r.AWS.Insights(ctx, o.Cluster)
}

// classKind is that of EC2NodeClasses.
var classKind = schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}

func (r *Reader) classes(ctx context.Context, o *Observed) {
	o.Classes.Of, o.Classes.Err = listAs[awsv1.EC2NodeClass](ctx, r.API, classKind)
}

// listAs lists objects of a kind as values of its type; none if the API server does not serve the kind.
func listAs[T any](ctx context.Context, api client.Reader, kind schema.GroupVersionKind) ([]T, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := api.List(ctx, list); err != nil {
		if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, err)
	}
	all := make([]T, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &all[i]); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", kind.Kind, list.Items[i].GetName(), err)
		}
	}
	return all, nil
}

// nodeRoles reads the roles that EC2NodeClasses name, directly or in an instance profile.
func (r *Reader) nodeRoles(ctx context.Context, o *Observed) {
	classes := map[[2]string][]string{}
	for i := range o.Classes.Of {
		spec := &o.Classes.Of[i].Spec
		key := [2]string{spec.Role, ptr.Deref(spec.InstanceProfile, "")}
		classes[key] = append(classes[key], o.Classes.Of[i].Name)
	}
	for key, names := range classes {
		slices.Sort(names)
		one := NodeRole{Name: key[0], Profile: key[1], Classes: names}
		if one.Name == "" {
			var roles []string
			if roles, one.Role.Err = r.AWS.ProfileRoles(ctx, one.Profile); len(roles) > 0 {
				one.Name = roles[0]
			}
		}
		if one.Name != "" {
			// EC2NodeClasses name roles; an ARN in spec.role has been accepted by older versions.
			one.Role.Of, one.Role.Err = r.AWS.NodeRole(ctx, one.Name[strings.LastIndex(one.Name, "/")+1:])
		}
		if one.Role.Of.ARN != "" {
			one.Entry.Of, one.Entry.Err = r.AWS.AccessEntry(ctx, o.Cluster, one.Role.Of.ARN)
		}
		o.NodeRoles = append(o.NodeRoles, one)
	}
	slices.SortFunc(o.NodeRoles, func(a, b NodeRole) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Profile, b.Profile)) })
	auth := &corev1.ConfigMap{}
	o.AWSAuth.Err = client.IgnoreNotFound(r.API.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "aws-auth"}, auth))
	o.AWSAuth.Of = auth.Data["mapRoles"]
}

// queueKey reads the key that encrypts the interruption queue, unless it is AWS's own.
func (r *Reader) queueKey(ctx context.Context, o *Observed) {
	if id := o.Queue.Of.Key; id != "" && id != managedKey {
		key, err := r.AWS.Key(ctx, id)
		o.QueueKey = Value[*cloud.Key]{&key, err}
	}
}

// defaultQueues returns the names of a cluster's interruption queue in Karpenter's getting-started guide and eksctl,
// terraform-aws-eks, and eks-blueprints-addons.
func defaultQueues(cluster string) []string {
	return []string{cluster, "Karpenter-" + cluster, "karpenter-" + cluster}
}

// queue reads the interruption queue and its rules. If it does not exist, it looks for those of the default names.
func (r *Reader) queue(ctx context.Context, o *Observed) {
	c, found := o.controller()
	if !found {
		return
	}
	var missing *cloud.NotFoundError
	if c.queue() != "" {
		o.Queue.Of, o.Queue.Err = r.AWS.Queue(ctx, c.queue())
		switch {
		case o.Queue.Err == nil:
			o.Rules.Of, o.Rules.Err = r.AWS.Rules(ctx, o.Queue.Of.ARN)
			r.queueKey(ctx, o)
			return
		case !errors.As(o.Queue.Err, &missing):
			return
		}
	}
	for _, name := range defaultQueues(o.Cluster) {
		if _, err := r.AWS.Queue(ctx, name); err == nil && name != c.queue() {
			o.OtherQueues = append(o.OtherQueues, name)
		}
	}
}
