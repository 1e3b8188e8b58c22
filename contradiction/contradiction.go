package contradiction

import "fmt"

// Why a contradiction matters.
const (
	whyName  = "Karpenter identifies its instances by this name only: of two clusters with the same name, each terminates the other's nodes within seconds, as orphans of its own"
	whyPlace = "the controller would launch nodes where plumbline does not look for them"
	whyElse  = "both cannot hold"
)

// RoleAnnotation gives a service account an IAM role by IRSA:
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
const RoleAnnotation = "eks.amazonaws.com/role-arn"

// Cluster contains what plumbline.yaml says about the cluster. An empty field contradicts nothing.
type Cluster struct {
	Name, Region, InterruptionQueue, ControllerRole string
}

// Error reports that a value, or what is running, contradicts a field of plumbline.yaml.
type Error struct {
	// Path of the value: settings.clusterName, controller.env[0]. Empty for what is running.
	Path string
	// What has the value Given; Field of plumbline.yaml is Want.
	What, Given, Field, Want string
	// Why it matters, and the Remedy.
	Why, Remedy string
}

// Error names both sides.
func (e *Error) Error() string {
	return fmt.Sprintf("%s is %q and %s is %q: %s; %s", e.What, e.Given, e.Field, e.Want, e.Why, e.Remedy)
}

// Running compares the cluster name of a running controller with that of plumbline.yaml; nil if they are equal or the
// name is unknown. what names the controller in the message.
func Running(cluster Cluster, what, name string) *Error {
	if name == "" || name == cluster.Name {
		return nil
	}
	return &Error{
		What: what, Given: name, Field: "cluster.name", Want: cluster.Name, Why: whyName,
		Remedy: "set cluster.name to it, or correct settings.clusterName where that is wrong",
	}
}

// Of returns the values of the chart that contradict the cluster. at is the prefix of their paths.
func Of(cluster Cluster, values map[string]any, at string) []*Error {
	f := finder{at: at}
	known := variables(cluster)
	settings := inner(values, "settings")
	f.setting("settings.clusterName", settings["clusterName"], known["CLUSTER_NAME"])
	f.setting("settings.region", settings["region"], known["AWS_REGION"])
	f.setting("settings.interruptionQueue", settings["interruptionQueue"], known["INTERRUPTION_QUEUE"])
	annotations := inner(inner(values, "serviceAccount"), "annotations")
	f.setting("serviceAccount.annotations."+RoleAnnotation, annotations[RoleAnnotation],
		field{"cluster.controllerRole", cluster.ControllerRole, whyElse})
	env, _ := inner(values, "controller")["env"].([]any)
	for i, one := range env {
		variable, _ := one.(map[string]any)
		f.variable(i, variable, known)
	}
	return f.found
}

// Variable compares a rendered variable of the controller's pods with the cluster; nil if they agree, or if the
// variable does not depend on the cluster. what names the variable in the message. A nil value is set by reference.
func Variable(cluster Cluster, what, name string, value *string) *Error {
	of := variables(cluster)[name]
	if of.want == "" || value != nil && *value == of.want {
		return nil
	}
	given := "given by reference"
	if value != nil {
		given = *value
	}
	return &Error{What: what, Given: given, Field: of.name, Want: of.want, Why: of.why, Remedy: "have the chart take it from its values"}
}

// variables returns the controller's variables that define which cluster it is for.
func variables(cluster Cluster) map[string]field {
	region := field{"cluster.region", cluster.Region, whyPlace}
	return map[string]field{
		"CLUSTER_NAME": {"cluster.name", cluster.Name, whyName}, "AWS_REGION": region, "AWS_DEFAULT_REGION": region,
		"INTERRUPTION_QUEUE": {"cluster.interruptionQueue", cluster.InterruptionQueue, whyElse},
	}
}

// field is a field of plumbline.yaml.
type field struct{ name, want, why string }

type finder struct {
	at    string
	found []*Error
}

// setting compares a value that plumbline.yaml fills in; an empty one does not count.
func (f *finder) setting(path string, given any, of field) {
	if given != nil && given != "" && of.want != "" && given != of.want {
		f.add(path, f.at+path, fmt.Sprint(given), of)
	}
}

// variable compares a variable of the controller. It comes after that of the chart, so an empty one counts, too.
func (f *finder) variable(i int, variable map[string]any, known map[string]field) {
	name, _ := variable["name"].(string)
	of := known[name]
	if of.want == "" || variable["value"] == of.want {
		return
	}
	given := "given by reference"
	if value := variable["value"]; value != nil {
		given = fmt.Sprint(value)
	} else if variable["valueFrom"] == nil {
		given = ""
	}
	path := fmt.Sprintf("controller.env[%d]", i)
	f.add(path, fmt.Sprintf("%s%s (%s)", f.at, path, name), given, of)
}

func (f *finder) add(path, what, given string, of field) {
	f.found = append(f.found, &Error{
		Path: f.at + path, What: what, Given: given, Field: of.name, Want: of.want, Why: of.why,
		Remedy: "leave the value out, it comes from " + of.name,
	})
}

func inner(values map[string]any, name string) map[string]any {
	found, _ := values[name].(map[string]any)
	return found
}
