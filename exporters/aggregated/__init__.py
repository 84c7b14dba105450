"""The aggregated Kubernetes API: what kube-apiserver, kubectl and informers speak, over HTTPS, answered from memory."""
