package awssim

import (
	"encoding/json"
	"fmt"
	"maps"
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
		"CreateAddon": document(a.createAddon), "DeleteAddon": document(a.deleteAddon), "UpdateAddon": document(a.updateAddon),
		"DescribeAddonConfiguration": document(a.describeAddonConfiguration),
	}
}

var addonRoutes = []route{
	{http.MethodGet, "/clusters/{cluster}/addons", "ListAddons"},
	{http.MethodGet, "/clusters/{cluster}/addons/{addon}", "DescribeAddon"},
	{http.MethodPost, "/clusters/{cluster}/addons", "CreateAddon"},
	{http.MethodDelete, "/clusters/{cluster}/addons/{addon}", "DeleteAddon"},
	{http.MethodPost, "/clusters/{cluster}/addons/{addon}/update", "UpdateAddon"},
	{http.MethodGet, "/addons/configuration-schemas", "DescribeAddonConfiguration"},
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
	values := c.valuesOf(name)
	described := object{
		"addonName": name, "clusterName": c.Name, "status": a.statusOf(c, name), "addonVersion": addonVersion,
		"addonArn": a.addonARN(c, name), "health": object{"issues": []object{}}, "tags": maps.Clone(values.tags),
	}
	if values.text != "" {
		described["configurationValues"] = values.text
	}
	return &object{"addon": described}
}

const addonVersion = "v1.0.0-eksbuild.1"

func (a *account) addonARN(c *cluster, name string) string {
	return a.arn("eks", a.options.Region, "addon/"+c.Name+"/"+name+"/"+fixedID("", name))
}

// addonValues are the configuration values of an add-on, and its tags.
type addonValues struct {
	text string
	tags map[string]string
}

func (c *cluster) valuesOf(name string) *addonValues {
	if c.values == nil {
		c.values = map[string]*addonValues{}
	}
	if c.values[name] == nil {
		c.values[name] = &addonValues{tags: map[string]string{}}
	}
	return c.values[name]
}

// AddonValues are the configuration values of an add-on of a cluster.
type AddonValues struct{ Cluster, Addon, Values string }

// SubscribeAddons calls f whenever the configuration values of an add-on change, so that a test applies them to the cluster as
// EKS does.
func (s *Simulator) SubscribeAddons(f func(AddonValues)) {
	s.locked(func(a *account) { a.applied = f })
}

// SetAddonValues sets the configuration values of an add-on, as its creator has, and forgets its tags.
func (s *Simulator) SetAddonValues(clusterName, addon, values string) error {
	var err error
	s.locked(func(a *account) {
		var c *cluster
		if c, err = a.findCluster(clusterName); err == nil {
			c.valuesOf(addon).text = values
			clear(c.valuesOf(addon).tags)
		}
	})
	return err
}

// addonSchemas are those of the configuration values of add-ons, without what the simulator does not need. Others have none.
var addonSchemas = map[string]string{
	"coredns": `{"$ref":"#/definitions/Coredns","$schema":"http://json-schema.org/draft-06/schema#","definitions":{"Coredns":{"additionalProperties":false,` +
		`"properties":{"affinity":{"type":["object","null"]},"nodeSelector":{"type":"object"},"replicaCount":{"type":"integer"},"resources":{"type":"object"},"tolerations":{"type":"array"}}}}}`,
	"aws-ebs-csi-driver": `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","additionalProperties":false,"properties":{` +
		`"controller":{"type":"object","properties":{"affinity":{"type":["object","null"]},"tolerations":{"type":"array"}}},"node":{"type":"object"}}}`,
	"metrics-server": `{"$schema":"http://json-schema.org/draft-06/schema#","type":"object","additionalProperties":false,"properties":{` +
		`"affinity":{"type":["object","null"]},"replicas":{"type":"integer"}}}`,
}

func (a *account) describeAddonConfiguration(r *request, _ *struct{}) (*object, error) {
	name := r.http.URL.Query().Get("addonName")
	return &object{"addonName": name, "addonVersion": r.http.URL.Query().Get("addonVersion"), "configurationSchema": addonSchemas[name]}, nil
}

// updateAddon changes the configuration values of an add-on. EKS refuses those that are no JSON object.
func (a *account) updateAddon(r *request, in *struct{ ConfigurationValues, ResolveConflicts string }) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	name := r.path["addon"]
	if !slices.Contains(c.addons, name) {
		return nil, eksNotFound("No addon: %s found in cluster: %s", name, c.Name)
	}
	if err := a.updating(c, name); err != nil {
		return nil, err
	}
	var values map[string]any
	if err := json.Unmarshal([]byte(in.ConfigurationValues), &values); err != nil {
		return nil, wire.Errorf("InvalidParameterException", "ConfigurationValue is not in valid JSON or YAML format")
	}
	c.valuesOf(name).text = in.ConfigurationValues
	if a.applied != nil {
		go a.applied(AddonValues{c.Name, name, in.ConfigurationValues})
	}
	return a.beginUpdate(c, "AddonUpdate", name)
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
