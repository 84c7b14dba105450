"""The scaling recipes, judged by small clients of KEDA and of HPA."""
