package awssim

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

const (
	// AgentPath is the path of the EKS Pod Identity agent; in a pod, AWS_CONTAINER_CREDENTIALS_FULL_URI contains the
	// whole URL.
	AgentPath = "/v1/credentials"
	// PodIdentityAudience is the audience of the tokens that it accepts.
	PodIdentityAudience = "pods.eks.amazonaws.com"
)

// association associates a ServiceAccount of a cluster with a role.
type association struct {
	id, arn                   string
	namespace, serviceAccount string
	roleARN                   string
	tags                      map[string]string
	created                   time.Time
}

func (a *account) podIdentityActions() map[string]action {
	return map[string]action{
		"CreatePodIdentityAssociation":   document(a.createPodIdentityAssociation),
		"DescribePodIdentityAssociation": document(a.describePodIdentityAssociation),
		"ListPodIdentityAssociations":    document(a.listPodIdentityAssociations),
		"DeletePodIdentityAssociation":   document(a.deletePodIdentityAssociation),
		"UpdatePodIdentityAssociation":   document(a.updatePodIdentityAssociation),
	}
}

var podIdentityRoutes = []route{
	{http.MethodPost, "/clusters/{cluster}/pod-identity-associations", "CreatePodIdentityAssociation"},
	{http.MethodGet, "/clusters/{cluster}/pod-identity-associations", "ListPodIdentityAssociations"},
	{http.MethodGet, "/clusters/{cluster}/pod-identity-associations/{association}", "DescribePodIdentityAssociation"},
	{http.MethodDelete, "/clusters/{cluster}/pod-identity-associations/{association}", "DeletePodIdentityAssociation"},
	{http.MethodPost, "/clusters/{cluster}/pod-identity-associations/{association}", "UpdatePodIdentityAssociation"},
}

// eksAuthService is the service that the agent calls.
func (a *account) eksAuthService() service {
	return service{
		name: "eks-auth", protocol: wire.REST,
		denied: "AccessDeniedException", throttled: "ThrottlingException", unknown: "UnknownOperationException",
		routes:  []route{{http.MethodPost, "/clusters/{cluster}/assume-role-for-pod-identity", "AssumeRoleForPodIdentity"}},
		actions: map[string]action{"AssumeRoleForPodIdentity": document(a.assumeRoleForPodIdentity)},
	}
}

type associationInput struct {
	Namespace, ServiceAccount, RoleArn string
	Tags                               map[string]string
}

func (a *account) createPodIdentityAssociation(r *request, in *associationInput) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	for _, other := range c.associations {
		if other.namespace == in.Namespace && other.serviceAccount == in.ServiceAccount {
			return nil, wire.Errorf("ResourceInUseException", "Association already exists: %s", other.id).WithStatus(http.StatusConflict)
		}
	}
	if _, err := a.roleOf(&in.RoleArn); err != nil {
		return nil, wire.Errorf("InvalidParameterException", "Role provided in the request does not exist.")
	}
	one := a.associate(c, in.Namespace, in.ServiceAccount, in.RoleArn)
	maps.Copy(one.tags, in.Tags)
	return &object{"association": c.document(one)}, nil
}

func (a *account) associate(c *cluster, namespace, serviceAccount, roleARN string) *association {
	one := &association{id: a.newResource("a-", nil, 0).ID, namespace: namespace, serviceAccount: serviceAccount, roleARN: roleARN, tags: map[string]string{}, created: a.now}
	one.arn = a.arn("eks", a.options.Region, "podidentityassociation/"+c.Name+"/"+one.id)
	c.associations = append(c.associations, one)
	return one
}

func (c *cluster) document(one *association) object {
	return object{
		"clusterName": c.Name, "namespace": one.namespace, "serviceAccount": one.serviceAccount, "roleArn": one.roleARN,
		"associationArn": one.arn, "associationId": one.id, "createdAt": one.created.Unix(), "modifiedAt": one.created.Unix(), "tags": maps.Clone(one.tags),
	}
}

func (a *account) findAssociation(r *request) (*cluster, *association, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(c.associations, func(one *association) bool { return one.id == r.path["association"] })
	if i < 0 {
		return nil, nil, eksNotFound("The specified association does not exist: %s", r.path["association"])
	}
	return c, c.associations[i], nil
}

func (a *account) describePodIdentityAssociation(r *request, _ *struct{}) (*object, error) {
	c, one, err := a.findAssociation(r)
	if err != nil {
		return nil, err
	}
	return &object{"association": c.document(one)}, nil
}

func (a *account) listPodIdentityAssociations(r *request, _ *struct{}) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	asked := r.http.URL.Query()
	found := []object{}
	for _, one := range c.associations {
		if cmp.Or(asked.Get("namespace"), one.namespace) == one.namespace && cmp.Or(asked.Get("serviceAccount"), one.serviceAccount) == one.serviceAccount {
			found = append(found, c.document(one))
		}
	}
	return &object{"associations": found}, nil
}

func (a *account) updatePodIdentityAssociation(r *request, in *associationInput) (*object, error) {
	c, one, err := a.findAssociation(r)
	if err != nil {
		return nil, err
	}
	if _, err := a.roleOf(&in.RoleArn); err != nil {
		return nil, wire.Errorf("InvalidParameterException", "Role provided in the request does not exist.")
	}
	one.roleARN = in.RoleArn
	return &object{"association": c.document(one)}, nil
}

func (a *account) deletePodIdentityAssociation(r *request, _ *struct{}) (*object, error) {
	c, one, err := a.findAssociation(r)
	if err != nil {
		return nil, err
	}
	c.associations = slices.DeleteFunc(c.associations, func(other *association) bool { return other == one })
	return &object{"association": c.document(one)}, nil
}

func (a *account) assumeRoleForPodIdentity(r *request, in *struct{ Token string }) (*object, error) {
	c, err := a.findCluster(r.path["cluster"])
	if err != nil {
		return nil, err
	}
	t, session, err := a.podSession(r, in.Token, c)
	if err != nil {
		return nil, err
	}
	return &object{
		"subject":  object{"namespace": t.Kubernetes.Namespace, "serviceAccount": t.Kubernetes.Account.Name},
		"audience": PodIdentityAudience, "credentials": session.document(),
		"assumedRoleUser":        object{"arn": session.arn, "assumeRoleId": session.id},
		"podIdentityAssociation": object{"associationArn": session.by.arn, "associationId": session.by.id},
	}, nil
}

// podSession is what a pod's token is exchanged for.
type podSession struct {
	by                     *association
	arn, id                string
	accessKey, secret, key string
	expires                time.Time
}

func (s podSession) document() object {
	return object{"accessKeyId": s.accessKey, "secretAccessKey": s.secret, "sessionToken": s.key, "expiration": s.expires.Unix()}
}

// podSession assumes the role that the token's ServiceAccount is associated with in
// its cluster, if the role's trust policy lets EKS do so for it.
func (a *account) podSession(r *request, text string, in *cluster) (token, podSession, error) {
	c, t, err := a.readToken(text)
	if err != nil {
		return t, podSession{}, err
	}
	if !t.isFor(PodIdentityAudience) || in != nil && c != in {
		return t, podSession{}, wire.Errorf("InvalidTokenException", "The token included in the request is invalid: its audience is %s", strings.Join(t.Audience, ", "))
	}
	i := slices.IndexFunc(c.associations, func(one *association) bool {
		return one.namespace == t.Kubernetes.Namespace && one.serviceAccount == t.Kubernetes.Account.Name
	})
	if i < 0 {
		return t, podSession{}, wire.Errorf("ResourceNotFoundException", "No association exists for namespace %s and service account %s in cluster %s", t.Kubernetes.Namespace, t.Kubernetes.Account.Name, c.Name).WithStatus(http.StatusNotFound)
	}
	by := c.associations[i]
	tags := map[string]string{
		"eks-cluster-arn": c.arn, "eks-cluster-name": c.Name, "kubernetes-namespace": t.Kubernetes.Namespace,
		"kubernetes-service-account": t.Kubernetes.Account.Name, "kubernetes-pod-name": t.Kubernetes.Pod.Name, "kubernetes-pod-uid": t.Kubernetes.Pod.UID,
	}
	assumed, err := a.roleOf(&by.roleARN)
	if err != nil || !a.trustsPods(r, assumed, c, tags) {
		return t, podSession{}, wire.Errorf("AccessDeniedException", "Unable to assume role: EKS is not authorized to perform sts:AssumeRole and sts:TagSession on resource: %s", by.roleARN).WithStatus(http.StatusBadRequest)
	}
	credentials, user := a.session(assumed, "eks-"+c.Name+"-"+newRequestID()[:8], 0, tags)
	return t, podSession{
		by: by, arn: *user.Arn, id: *user.AssumedRoleId, accessKey: *credentials.AccessKeyId,
		secret: *credentials.SecretAccessKey, key: *credentials.SessionToken, expires: *credentials.Expiration,
	}, nil
}

// trustsPods reports whether a role allows EKS to assume it and to tag the session, both of which EKS does for a pod.
func (a *account) trustsPods(r *request, assumed *role, c *cluster, tags map[string]string) bool {
	for _, action := range []string{"sts:AssumeRole", "sts:TagSession"} {
		asked := policy.Request{Action: action, Caller: map[string][]string{"Service": {PodIdentityAudience}}, Context: a.callContext(r)}
		asked.Context.Set("aws:SourceAccount", a.options.Account)
		asked.Context.Set("aws:SourceArn", c.arn)
		for key, value := range tags {
			asked.Context.Set("aws:RequestTag/"+key, value)
		}
		if policy.Trust(assumed.trusts, asked) != policy.Allow {
			return false
		}
	}
	return true
}

// serveAgent is the agent on a node: it forwards the SDK's request for credentials to EKS, and responds in the format
// of the SDK's container provider.
func (s *Simulator) serveAgent(w http.ResponseWriter, r *http.Request) {
	req := &request{
		id: newRequestID(), service: s.services["eks-auth"], action: "AssumeRoleForPodIdentity", http: r, started: s.options.Now(),
		principal: principal{UserAgent: r.UserAgent()},
	}
	s.meet(req)
	var session podSession
	var err error
	s.locked(func(a *account) { _, session, err = a.podSession(req, r.Header.Get("Authorization"), nil) })
	s.record(req, err)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		failure := wire.AsError(err)
		w.WriteHeader(failure.Status)
		// A client that has disconnected needs no response.
		_ = json.NewEncoder(w).Encode(map[string]string{"code": failure.Code, "message": failure.Message})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{
		"AccessKeyId": session.accessKey, "SecretAccessKey": session.secret, "Token": session.key,
		"AccountId": s.options.Account, "Expiration": session.expires.UTC().Format(time.RFC3339),
	})
}

// Associate associates a ServiceAccount of a cluster with a role, like CreatePodIdentityAssociation.
func (s *Simulator) Associate(clusterName, namespace, serviceAccount, roleName string) error {
	var err error
	s.locked(func(a *account) {
		var c *cluster
		var r *role
		if c, err = a.findCluster(clusterName); err != nil {
			return
		}
		if r, err = a.findRole(&roleName); err == nil {
			a.associate(c, namespace, serviceAccount, r.arn)
		}
	})
	return err
}
