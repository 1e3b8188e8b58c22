package plan

import (
	"fmt"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	published "github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/render"
)

// maxKubeletSkew is how many minor versions a kubelet may be older than the API server; it may not be newer.
// https://kubernetes.io/releases/version-skew-policy/#kubelet
const maxKubeletSkew = 3

// KubeletSkew returns a sentence on the AMIs whose kubelet does not work with a control plane of a Kubernetes version
// (1.37); empty if there is none. An AMI that AWS does not publish for EKS has no known version, and is left out.
func KubeletSkew(amis []awsv1.AMI, kubernetes string) string {
	plane, err := karpenter.KubernetesMinor(kubernetes)
	if err != nil {
		return ""
	}
	var found []string
	for _, ami := range amis {
		release, ok := published.ReleaseOf(ami.Name)
		if !ok {
			continue
		}
		kubelet, err := karpenter.KubernetesMinor(release.Kubernetes)
		switch {
		case err != nil:
		case kubelet > plane:
			found = append(found, fmt.Sprintf("%s has a kubelet of Kubernetes %s, which is newer", ami.ID, release.Kubernetes))
		case plane-kubelet > maxKubeletSkew:
			found = append(found, fmt.Sprintf("%s has a kubelet of Kubernetes %s, which is more than %d minor versions older", ami.ID, release.Kubernetes, maxKubeletSkew))
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return fmt.Sprintf("AMI %s than a control plane of %s, so its nodes do not work with it: select AMIs for a Kubernetes version in between first",
		strings.Join(slices.Compact(found), ", AMI "), kubernetes)
}

// NextQuestions are the Questions that NextKubernetes needs for EC2NodeClasses of Git: of the next Kubernetes version, what
// each alias and the newest one of its family resolve to, and of the current one, what other terms resolve to.
func NextQuestions(classes []*awsv1.EC2NodeClass) (next, current []Question) {
	for _, class := range classes {
		q := Question{Ref: render.Ref{Kind: render.EC2NodeClass, Name: class.Name}, Class: class, AMIs: true}
		switch alias := aliasOf(class); {
		case !Hashable(class):
		case alias == "":
			current = append(current, q)
		default:
			next = append(next, q)
			newest := newestOf(alias)
			if !slices.ContainsFunc(next, func(q Question) bool { return q.Ref == newest }) {
				next = append(next, Question{Ref: newest, AMIs: true, Class: &awsv1.EC2NodeClass{
					ObjectMeta: metav1.ObjectMeta{Name: newest.Name},
					Spec:       awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: newest.Name}}},
				}})
			}
		}
	}
	return next, current
}

// newestOf returns the Ref of the question for the newest alias of a family. No object has that name.
func newestOf(alias string) render.Ref {
	family, _, _ := strings.Cut(alias, "@")
	return render.Ref{Kind: render.EC2NodeClass, Name: family + "@" + published.Latest}
}

// NextKubernetes returns sentences on the EC2NodeClasses of Git with which no node can be launched, or whose nodes do not
// work, once the control plane has the next Kubernetes version. While AWS publishes nothing of a family for that version,
// there is no sentence on its aliases. answers are those to both kinds of NextQuestions.
func NextKubernetes(classes []*awsv1.EC2NodeClass, kubernetes string, answers map[render.Ref]Answer) (words []string) {
	for _, class := range classes {
		answer, answered := answers[render.Ref{Kind: render.EC2NodeClass, Name: class.Name}]
		alias := aliasOf(class)
		if !answered {
			continue
		}
		newest := answers[newestOf(alias)].AMIs
		of := fmt.Sprintf("EC2NodeClass/%s, once the control plane has Kubernetes %s", class.Name, kubernetes)
		switch amis := &answer.AMIs; {
		case alias == "":
			if skew := KubeletSkew(amis.Found, kubernetes); skew != "" {
				words = append(words, of+": "+skew)
			}
		case amis.Unsupported:
			words = append(words, fmt.Sprintf("%s: Karpenter launches no node with it: %s", of, amis.Unavailable))
		case amis.Empty && len(newest.Found) > 0:
			words = append(words, fmt.Sprintf("%s: AWS publishes no AMI for alias %s and that version, but newer releases: pin one of these before the upgrade", of, alias))
		case amis.Unavailable != "" && !amis.Empty:
			words = append(words, fmt.Sprintf("%s: whether AWS publishes alias %s for that version is unknown: %s", of, alias, amis.Unavailable))
		}
	}
	return words
}

// ClassesOf returns the EC2NodeClasses of Git that questions are about.
func ClassesOf(questions ...[]Question) (classes []*awsv1.EC2NodeClass) {
	for _, q := range slices.Concat(questions...) {
		if q.Ref.Name == q.Class.Name && !strings.Contains(q.Ref.Name, "@") { // no object has such a name
			classes = append(classes, q.Class)
		}
	}
	return classes
}

// ClassesWithOtherAMIs returns the EC2NodeClasses of a Set whose amiSelectorTerms differ from the live ones, or that do not
// exist yet.
func (l Live) ClassesWithOtherAMIs(set *render.Set) (classes []*awsv1.EC2NodeClass) {
	live := map[string]*awsv1.EC2NodeClass{}
	for _, class := range l.classes() {
		live[class.Name] = class
	}
	for i := range set.Objects {
		if set.Objects[i].Ref.Kind != render.EC2NodeClass {
			continue
		}
		class, err := typed[awsv1.EC2NodeClass](set.Objects[i].Desired)
		if err != nil {
			continue
		}
		if was := live[class.Name]; was == nil || !equality.Semantic.DeepEqual(was.Spec.AMISelectorTerms, class.Spec.AMISelectorTerms) {
			classes = append(classes, class)
		}
	}
	return classes
}
