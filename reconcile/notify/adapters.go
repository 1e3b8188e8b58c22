package notify

import "github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"

// adapter is what one type of receiver wants sent. It has no I/O.
type adapter struct {
	// body is sent as JSON; nil where the receiver has no use for the Notice.
	body func(Notice) any
	// sign puts what proves the sender into the header.
	sign func(credentials, []byte) (name, value string)
}

// adapters are the types of receivers.
func adapters() map[v1alpha1.NotifyType]adapter {
	return map[v1alpha1.NotifyType]adapter{
		v1alpha1.NotifySlack:        {body: slack, sign: unsigned},
		v1alpha1.NotifyTeams:        {body: teams, sign: unsigned},
		v1alpha1.NotifyAlertmanager: {body: alertmanager, sign: authorized},
		v1alpha1.NotifyGeneric:      {body: generic, sign: hashed},
	}
}

// unsigned is for receivers whose address is the secret.
func unsigned(credentials, []byte) (name, value string) { return "", "" }

// title names the NodeSync, and the cluster where it is known.
func title(n Notice) string {
	if n.Cluster == "" {
		return "nodesync/" + n.NodeSync.Name
	}
	return "nodesync/" + n.NodeSync.Name + " on " + n.Cluster
}
