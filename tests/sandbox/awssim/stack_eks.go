package awssim

import (
	"net/url"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
)

// eks calls EKS about a cluster, with the other values of the path.
func (w *work) eks(action, cluster string, input object, path ...string) (object, error) {
	c := awsCall{service: "eks", action: action, input: input, path: map[string]string{"cluster": cluster}}
	for i := 0; i+1 < len(path); i += 2 {
		c.path[path[i]] = path[i+1]
	}
	out, err := answerOf[object](w, c)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// field returns a field of an object in a response of EKS.
func fieldOf(out object, name, field string) string {
	inner, _ := out[name].(object)
	return template.Text(inner[field])
}

// changeEKSTags changes the tags of a resource of EKS.
func (w *work) changeEKSTags(arn string) error {
	set, removed := w.changedTags()
	if len(removed) > 0 {
		c := awsCall{service: "eks", action: "UntagResource", path: map[string]string{"arn": arn}, query: url.Values{"tagKeys": removed}}
		if _, err := w.call(c); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := w.call(awsCall{service: "eks", action: "TagResource", path: map[string]string{"arn": arn}, input: object{"tags": set}})
	return err
}

var accessEntryKind = resourceKind{
	required: []string{"ClusterName", "PrincipalArn"}, optional: []string{"KubernetesGroups", "Tags", "Type", "Username"},
	createOnly: []string{"ClusterName", "PrincipalArn", "Type"}, attributes: []string{"AccessEntryArn"},
	identifier: []string{"PrincipalArn", "ClusterName"},
	taggable:   true, systemTags: true,
	create: createStackEntry, update: updateStackEntry,
	delete: func(w *work) error {
		_, err := w.eks("DeleteAccessEntry", textOf(w.of.properties, "ClusterName"), nil, "principal", textOf(w.of.properties, "PrincipalArn"))
		return err
	},
	read: func(w *work, identifier map[string]string) (string, map[string]string, error) {
		out, err := w.eks("DescribeAccessEntry", identifier["ClusterName"], nil, "principal", identifier["PrincipalArn"])
		return w.kind.physicalID(identifier), map[string]string{"AccessEntryArn": fieldOf(out, "accessEntry", "accessEntryArn")}, err
	},
}

// entryInput returns the fields of an access entry that its properties set.
func entryInput(properties map[string]any) object {
	input := object{}
	if username := textOf(properties, "Username"); username != "" {
		input["username"] = username
	}
	if groups := textsOf(properties, "KubernetesGroups"); groups != nil {
		input["kubernetesGroups"] = groups
	}
	return input
}

func createStackEntry(w *work) error {
	cluster, principal := textOf(w.after, "ClusterName"), textOf(w.after, "PrincipalArn")
	input := entryInput(w.after)
	input["principalArn"], input["type"], input["tags"] = principal, textOf(w.after, "Type"), w.tagsAfter()
	out, err := w.eks("CreateAccessEntry", cluster, input)
	if err != nil {
		return err
	}
	w.made(principal+"|"+cluster, map[string]string{"AccessEntryArn": fieldOf(out, "accessEntry", "accessEntryArn")})
	_, err = w.eks("DescribeAccessEntry", cluster, nil, "principal", principal)
	return err
}

func updateStackEntry(w *work) error {
	if w.changes("Username", "KubernetesGroups") {
		cluster, principal := textOf(w.after, "ClusterName"), textOf(w.after, "PrincipalArn")
		if _, err := w.eks("UpdateAccessEntry", cluster, entryInput(w.after), "principal", principal); err != nil {
			return err
		}
	}
	return w.changeEKSTags(w.of.attributes["AccessEntryArn"])
}

var associationKind = resourceKind{
	required: []string{"ClusterName", "Namespace", "RoleArn", "ServiceAccount"}, optional: []string{"Tags"},
	createOnly: []string{"ClusterName", "Namespace", "ServiceAccount"}, attributes: []string{"AssociationArn", "AssociationId"},
	identifier: []string{"AssociationArn"}, taggable: true, systemTags: true,
	create: createStackAssociation, update: updateStackAssociation,
	delete: func(w *work) error {
		_, err := w.eks("DeletePodIdentityAssociation", textOf(w.of.properties, "ClusterName"), nil, "association",
			w.of.attributes["AssociationId"])
		return err
	},
	read: readStackAssociation,
}

func createStackAssociation(w *work) error {
	cluster := textOf(w.after, "ClusterName")
	out, err := w.eks("CreatePodIdentityAssociation", cluster, object{
		"namespace": textOf(w.after, "Namespace"), "serviceAccount": textOf(w.after, "ServiceAccount"),
		"roleArn": textOf(w.after, "RoleArn"), "tags": w.tagsAfter(),
	})
	if err != nil {
		return err
	}
	arn, id := fieldOf(out, "association", "associationArn"), fieldOf(out, "association", "associationId")
	w.made(arn, map[string]string{"AssociationArn": arn, "AssociationId": id})
	_, err = w.eks("DescribePodIdentityAssociation", cluster, nil, "association", id)
	return err
}

func updateStackAssociation(w *work) error {
	if w.changes("RoleArn") {
		cluster, id := textOf(w.after, "ClusterName"), w.of.attributes["AssociationId"]
		input := object{"roleArn": textOf(w.after, "RoleArn")}
		if _, err := w.eks("UpdatePodIdentityAssociation", cluster, input, "association", id); err != nil {
			return err
		}
	}
	return w.changeEKSTags(w.of.physicalID)
}

func readStackAssociation(w *work, identifier map[string]string) (string, map[string]string, error) {
	arn := identifier["AssociationArn"]
	id := arn[strings.LastIndex(arn, "/")+1:]
	_, err := w.eks("DescribePodIdentityAssociation", textOf(w.after, "ClusterName"), nil, "association", id)
	return arn, map[string]string{"AssociationArn": arn, "AssociationId": id}, err
}

var addonKind = resourceKind{
	required:   []string{"AddonName", "ClusterName"},
	optional:   []string{"AddonVersion", "ConfigurationValues", "PreserveOnDelete", "ResolveConflicts", "Tags"},
	createOnly: []string{"AddonName", "ClusterName"}, attributes: []string{"Arn"}, identifier: []string{"ClusterName", "AddonName"},
	create: func(w *work) error {
		cluster, name := textOf(w.after, "ClusterName"), textOf(w.after, "AddonName")
		out, err := w.eks("CreateAddon", cluster, object{"addonName": name})
		if err == nil {
			w.made(cluster+"|"+name, map[string]string{"Arn": fieldOf(out, "addon", "addonArn")})
		}
		return err
	},
	update: func(*work) error { return nil }, // the simulator knows neither versions nor values
	delete: func(w *work) error {
		_, err := w.eks("DeleteAddon", textOf(w.of.properties, "ClusterName"), nil, "addon", textOf(w.of.properties, "AddonName"))
		return err
	},
	read: func(w *work, identifier map[string]string) (string, map[string]string, error) {
		out, err := w.eks("DescribeAddon", identifier["ClusterName"], nil, "addon", identifier["AddonName"])
		return w.kind.physicalID(identifier), map[string]string{"Arn": fieldOf(out, "addon", "addonArn")}, err
	},
}
