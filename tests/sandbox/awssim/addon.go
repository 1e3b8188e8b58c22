package awssim

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// addons are those that a cluster of Karpenter's getting-started guide has.
var addons = []string{"coredns", podIdentityAgent, "kube-proxy", "vpc-cni"}

// podIdentityAgent is the add-on without which pods do not get credentials by EKS Pod Identity.
const podIdentityAgent = "eks-pod-identity-agent"

func (a *account) addonActions() map[string]action {
	return map[string]action{
		"ListAddons": document(a.listAddons), "DescribeAddon": document(a.describeAddon),
		"CreateAddon": document(a.createAddon), "DeleteAddon": document(a.deleteAddon),
	}
}

var addonRoutes = []route{
	{http.MethodGet, "/clusters/{cluster}/addons", "ListAddons"},
	{http.MethodGet, "/clusters/{cluster}/addons/{addon}", "DescribeAddon"},
	{http.MethodPost, "/clusters/{cluster}/addons", "CreateAddon"},
	{http.MethodDelete, "/clusters/{cluster}/addons/{addon}", "DeleteAddon"},
}

// SetAddon adds an add-on to a cluster, or removes it.
func (s *Simulator) SetAddon(clusterName, addon string, exists bool) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		if !ok {
			err = fmt.Errorf("changing the add-on %s of cluster %s: there is no cluster of that name", addon, clusterName)
			return
		}
		c.addons = slices.DeleteFunc(c.addons, func(name string) bool { return name == addon })
		if exists {
			c.addons = append(c.addons, addon)
			slices.Sort(c.addons)
		}
	})
	return err
}

// SetNodeAccess removes the access entry of the node role of a cluster, or restores it.
func (s *Simulator) SetNodeAccess(clusterName string, exists bool) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		r, has := a.roles["KarpenterNodeRole-"+clusterName]
		if !ok || !has {
			err = fmt.Errorf("changing the access entry of the nodes of cluster %s: there is no cluster of that name, or no role", clusterName)
			return
		}
		delete(c.accessEntries, r.arn)
		if exists {
			c.accessEntries[r.arn] = a.nodeEntry(r)
		}
	})
	return err
}

func (a *account) listAddons(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	return &object{"addons": c.addons}, nil
}

func (a *account) describeAddon(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	name := r.path["addon"]
	if !slices.Contains(c.addons, name) {
		return nil, eksNotFound("No addon: %s found in cluster: %s", name, c.Name)
	}
	return a.addonDocument(c, name), nil
}

func (a *account) addonDocument(c *cluster, name string) *object {
	return &object{"addon": object{
		"addonName": name, "clusterName": c.Name, "status": "ACTIVE", "addonVersion": "v1.0.0-eksbuild.1",
		"addonArn": a.arn("eks", a.options.Region, "addon/"+c.Name+"/"+name+"/"+fixedID("", name)), "health": object{"issues": []object{}},
	}}
}

func (a *account) createAddon(r *request, in *struct{ AddonName string }) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	if slices.Contains(c.addons, in.AddonName) {
		return nil, wire.Errorf("ResourceInUseException", "Addon already exists.").WithStatus(http.StatusConflict)
	}
	c.addons = append(c.addons, in.AddonName)
	slices.Sort(c.addons)
	return a.addonDocument(c, in.AddonName), nil
}

func (a *account) deleteAddon(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	name := r.path["addon"]
	if !slices.Contains(c.addons, name) {
		return nil, eksNotFound("No addon: %s found in cluster: %s", name, c.Name)
	}
	c.addons = slices.DeleteFunc(c.addons, func(other string) bool { return other == name })
	return a.addonDocument(c, name), nil
}
